/** Answers requests that never reach the router (not parsed, head too large or slow, CONNECT), with the envelope and headers of all others. */
import { STATUS_CODES, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { Socket } from 'node:net';
import { budgets, type UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { headerList, problemAnswer } from './answer.ts';
import type { Rate } from '../scheduling/rate-windows.ts';

/** How long a peer may take to read its answer and close, before the socket is destroyed. */
const LINGER_MS = 2_000;

interface Deps {
  clock: Clock;
  usedUp?: UsedUp | undefined;
  /** Counts a request without a valid key from this address. */
  count(remoteAddress: string | undefined): Rate;
}

/** The newest response on each connection, to know whether another answer is being written on it. */
type Responses = WeakMap<Duplex, { req: IncomingMessage; res: ServerResponse }>;

export function answerClientErrors(deps: Deps, server: Server): void {
  const newest: Responses = new WeakMap();
  const answered = new WeakSet<Duplex>();
  const note = (req: IncomingMessage, res: ServerResponse): void => {
    newest.set(req.socket, { req, res });
  };
  server.prependListener('request', note);
  server.prependListener('checkExpectation', note);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (answered.has(socket)) return;
    answered.add(socket);
    if (error.code === HEAD_OVERFLOW) deps.usedUp?.('http_head_bytes');
    const problem = problemOf(error);
    if (problem === null || !socket.writable) socket.destroy();
    else answerInTurn(deps, newest, socket, problem);
  });
  // Without a listener Node closes the connection without an answer.
  server.on('connect', (_req: IncomingMessage, socket: Duplex) => {
    write(deps, socket, new Problem('invalid_request', 'This is not a proxy: CONNECT is not supported.'));
  });
}

/** Returns null if the peer has disconnected. */
function problemOf(error: NodeJS.ErrnoException): Problem | null {
  switch (error.code) {
    case 'ECONNRESET':
    case 'EPIPE':
      return null;
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem('request_timeout', 'The request did not arrive in time.');
    case HEAD_OVERFLOW:
      return new Problem(
        'invalid_request',
        `The head has more than 16 KiB or more than ${String(MOST_FIELDS)} fields.`,
      );
    default:
      // After a failed TLS handshake the peer cannot read an answer.
      if (/^ERR_(?:SSL|TLS)_/.test(error.code ?? '')) return null;
      return new Problem('invalid_request', 'This is not a well-formed HTTP/1.1 request.');
  }
}

/** Answers a faulty body in place of its request's answer, and a fault behind a good request after that one's answer. */
function answerInTurn(deps: Deps, newest: Responses, socket: Duplex, problem: Problem): void {
  const last = newest.get(socket);
  if (last === undefined || last.res.closed) write(deps, socket, problem);
  else if (last.req.complete) {
    last.res.once('close', () => {
      write(deps, socket, problem);
    });
  } else if (last.res.headersSent) socket.destroy();
  else write(deps, socket, problem);
}

function write(deps: Deps, socket: Duplex, problem: Problem): void {
  if (!socket.writable) return;
  const { clock } = deps;
  const at = clock.now();
  const requestId = newId('req', at);
  const answer = problemAnswer(problem, requestId);
  const rate = deps.count(socket instanceof Socket ? socket.remoteAddress : undefined);
  const { body } = answer;
  const headers = headerList({ requestId, rate, at }, answer, [
    'Content-Length',
    String(Buffer.byteLength(body)),
    'Connection',
    'close',
    'Date',
    new Date(at).toUTCString(),
  ]);
  const lines = [`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ''}`];
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at] ?? ''}: ${headers[at + 1] ?? ''}`);
  // Further bytes of the peer are discarded: closing the socket with unread bytes would reset the connection and lose the answer.
  socket.removeAllListeners('data');
  socket.on('data', () => undefined);
  socket.on('error', () => socket.destroy());
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`);
  const late = clock.after(LINGER_MS, () => socket.destroy(), { background: true });
  socket.once('end', () => socket.destroy());
  socket.once('close', () => late.cancel());
}

export const headLimits = { maxHeaderSize: budgets.http_head_bytes.most } as const;
/** Node's code of a head with too many bytes, and since version 24 of one with too many fields. */
const HEAD_OVERFLOW = 'HPE_HEADER_OVERFLOW';
const MOST_FIELDS = 100;

/**
 * Hands requests to the listener, except those with too many fields: Node before version 24 drops the surplus without a word, which may be
 * the key, or what a proxy says of the client. Also refuses HTTP/0.9, which has no head and which Node takes.
 */
export function takeRequests(server: Server, listener: RequestListener): RequestListener {
  server.maxHeadersCount = MOST_FIELDS;
  const take: RequestListener = (req, res) => {
    // Node leaves the surplus of the last fields that it read here.
    const isOld = req.httpVersionMajor < 1;
    if (!isOld && req.rawHeaders.length <= 2 * MOST_FIELDS) {
      listener(req, res);
      return;
    }
    const error = Object.assign(new Error('refused'), { code: isOld ? 'HPE_INVALID_VERSION' : HEAD_OVERFLOW });
    if (!server.emit('clientError', error, req.socket)) res.writeHead(400, { Connection: 'close' }).end();
  };
  server.on('request', take);
  return take;
}
