/** The client of the control socket, for the command line. */
import http from 'node:http';
import { environment } from '../config/load.ts';
import { resultIn } from './control-answer.ts';
import { systemUser } from './system-user.ts';
import { absenceOf, LARGEST_COMMAND_BYTES, refusal, tooLarge } from './control-socket.ts';
import { Unavailable } from './unavailable.ts';

export type Called = { kind: 'result'; result: unknown } | { kind: 'no_server' };

/**
 * Asks the server at this socket to perform an operation. Throws the `Problem` that it answers, and `payload_too_large` before anything is
 * sent: the server would answer that too, but closes the socket while the client still writes. There is no time limit: a flush may
 * take minutes.
 */
export async function callServer(file: string, name: string, args: unknown): Promise<Called> {
  const body = JSON.stringify(args);
  if (Buffer.byteLength(body) > LARGEST_COMMAND_BYTES) throw tooLarge();
  const posted = await post(file, name, body);
  if (posted.kind === 'no_server') return posted;
  return { kind: 'result', result: resultIn(posted.text) };
}

function post(
  file: string,
  name: string,
  body: string,
): Promise<{ kind: 'answered'; text: string } | { kind: 'no_server' }> {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'x-system-user': systemUser(environment()),
    };
    const request = http.request({ socketPath: file, method: 'POST', path: `/${name}`, headers, agent: false });
    request.on('error', (error: NodeJS.ErrnoException) => {
      if (absenceOf(error) !== null) resolve({ kind: 'no_server' });
      else reject(isCutOff(error) ? cutOff() : refusal(file, error));
    });
    request.on('response', (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', (error: NodeJS.ErrnoException) => {
        reject(isCutOff(error) ? cutOff() : error);
      });
      response.on('end', () => {
        resolve({ kind: 'answered', text: Buffer.concat(parts).toString('utf8') });
      });
    });
    request.end(body);
  });
}

const isCutOff = ({ code }: NodeJS.ErrnoException): boolean => code === 'ECONNRESET' || code === 'EPIPE';

const cutOff = (): Unavailable =>
  new Unavailable(
    'not_running',
    'the server ended before it had answered: what was asked may be done in part, so look before you ask again',
  );
