/** The client of the control socket, for the command line. */
import http from 'node:http';
import { environment } from '../config/load.ts';
import { catalogue, Problem, type ProblemCode } from '../base/problem.ts';
import { systemUser } from './system-user.ts';
import { absenceOf, refusal, type ControlAnswer } from './control-socket.ts';

export type Called = { kind: 'result'; result: unknown } | { kind: 'no_server' };

/** Asks the server at this socket to perform an operation. Throws the `Problem` that it answers. There is no time limit: a flush may take minutes. */
export async function callServer(file: string, name: string, args: unknown): Promise<Called> {
  const posted = await post(file, name, JSON.stringify(args));
  if (posted.kind === 'no_server') return posted;
  const answer = read(posted.text);
  if ('result' in answer) return { kind: 'result', result: answer.result };
  const { code, message, field } = answer.problem;
  throw new Problem(code, message, { field });
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
      else reject(refusal(file, error));
    });
    request.on('response', (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        resolve({ kind: 'answered', text: Buffer.concat(parts).toString('utf8') });
      });
    });
    request.end(body);
  });
}

/** Reads an answer. Throws if its form is unknown: the server may have another version. */
function read(text: string): ControlAnswer {
  const answer: unknown = JSON.parse(text);
  if (typeof answer === 'object' && answer !== null) {
    if ('result' in answer) return { result: answer.result };
    if ('problem' in answer && isProblem(answer.problem)) return { problem: answer.problem };
  }
  throw new Error('the server answered in a form that is not known here: is it of another version?');
}

function isProblem(value: unknown): value is { code: ProblemCode; message: string; field: string | null } {
  if (typeof value !== 'object' || value === null) return false;
  const { code, message, field } = value as Record<string, unknown>;
  return (
    typeof code === 'string' &&
    Object.hasOwn(catalogue, code) &&
    typeof message === 'string' &&
    (field === null || typeof field === 'string')
  );
}
