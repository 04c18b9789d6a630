/** The client of the control socket, for the command line. */
import http from 'node:http';
import { endpoints } from '../../client/types.ts';
import { catalogue, Problem, type ProblemCode } from '../../base/problem.ts';
import { environment } from '../../config/surroundings.ts';
import { absenceOf, refusal, serverPath, systemUser } from './socket.ts';
import { Unavailable } from '../../base/unavailable.ts';

/** Returns the method and path of an operation, in the notation of OpenAPI: `GET /v1/keys/{id}`. */
export function endpointOf(operation: string): string {
  if (Object.hasOwn(endpoints, operation)) return endpoints[operation as keyof typeof endpoints];
  return `POST ${serverPath(operation)}`;
}

/** The input of an operation; undefined members are left out. */
export interface AskedOf {
  /** Name or id of the account; without it, the account of the object in `params`, or `default`. */
  account?: string | undefined;
  params?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, string | number | undefined>>;
  body?: object;
  /** Media type that is wanted instead of JSON. */
  accept?: string;
}

export const searchOf = (query: AskedOf['query'] = {}): string =>
  new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)] as [string, string]],
    ),
  ).toString();

/** Calls an operation at this socket without a time limit (a flush may take minutes); null if no server is there. Throws the `Problem` it answers. */
export async function callServer(
  file: string,
  operation: string,
  { account, params = {}, query, body, accept }: AskedOf,
): Promise<http.IncomingMessage | null> {
  const [method = '', pattern = ''] = endpointOf(operation).split(' ');
  const path = pattern.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
  const search = searchOf(query);
  const content = method === 'GET' || method === 'DELETE' ? undefined : JSON.stringify(body ?? {});
  const answer = await new Promise<http.IncomingMessage | null>((resolve, reject) => {
    const request = http.request({
      socketPath: file,
      method,
      path: search === '' ? path : `${path}?${search}`,
      headers: {
        'posthorn-user': systemUser(environment()),
        ...(account === undefined ? {} : { 'posthorn-account': encodeURIComponent(account) }),
        ...(accept === undefined ? {} : { accept }),
        ...(content === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(content) }),
      },
      agent: false,
    });
    request.on('error', (error: NodeJS.ErrnoException) => {
      if (absenceOf(error) !== null) resolve(null);
      else reject(isCutOff(error) ? cutOff() : refusal(file, error));
    });
    request.on('response', resolve);
    request.end(content);
  });
  if (answer === null || (answer.statusCode ?? 0) < 400) return answer;
  const problem = problemIn(memberOf(await jsonIn(answer), 'error'));
  throw problem ?? unknownForm();
}

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;

/** Reads the JSON of an answer; null if it has no body. */
export async function jsonIn(answer: http.IncomingMessage): Promise<unknown> {
  const parts: string[] = [];
  for await (const part of textIn(answer)) parts.push(part);
  const text = parts.join('');
  if (text === '') return null;
  if (answer.headers['content-type']?.startsWith('application/json') !== true) throw unknownForm();
  return JSON.parse(text) as unknown;
}

export async function bytesIn(answer: http.IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  try {
    for await (const part of answer) parts.push(part as Buffer);
  } catch (error) {
    throw isCutOff(error as NodeJS.ErrnoException) ? cutOff() : error;
  }
  return Buffer.concat(parts);
}

export async function* textIn(answer: http.IncomingMessage): AsyncGenerator<string> {
  answer.setEncoding('utf8');
  try {
    for await (const part of answer) yield String(part);
  } catch (error) {
    throw isCutOff(error as NodeJS.ErrnoException) ? cutOff() : error;
  }
}

const isCutOff = ({ code }: NodeJS.ErrnoException): boolean => code === 'ECONNRESET' || code === 'EPIPE';

const cutOff = (): Unavailable =>
  new Unavailable(
    'not_running',
    'the server ended before it had answered: what was asked may be done in part, so look before you ask again',
  );

/** Returns the problem that another process answered, or null if its form is unknown: the process may have another version. */
function problemIn(value: unknown): Problem | null {
  if (typeof value !== 'object' || value === null) return null;
  const { code, message, field } = value as Record<string, unknown>;
  if (typeof code !== 'string' || typeof message !== 'string') return null;
  if (!Object.hasOwn(catalogue, code) || (field !== null && typeof field !== 'string')) return null;
  return new Problem(code as ProblemCode, message, { field });
}

const unknownForm = (): Error =>
  new Error('the server answered in a form that is not known here: is it of another version?');
