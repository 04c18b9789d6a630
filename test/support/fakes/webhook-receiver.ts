/** An endpoint of a customer on loopback: keeps what it is told and answers what a script says. Plain HTTP, or TLS where a certificate is given. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import type { SeenEvent } from '../harness/app.ts';

export interface ReceivedCall {
  headers: http.IncomingHttpHeaders;
  path: string;
  body: string;
  /** The body read as JSON. */
  event: SeenEvent;
  /** The connection it came on. */
  socket: Socket;
}

/** `hang` never answers, `drop` cuts the connection. */
export type HookAnswer =
  number | 'hang' | 'drop' | { status: number; headers?: Record<string, string>; body?: string | Buffer };

export interface WebhookReceiver {
  readonly url: string;
  readonly port: number;
  readonly calls: ReceivedCall[];
  /** The status of all answers from now on; 204 at the beginning. */
  answer: HookAnswer | ((call: ReceivedCall) => HookAnswer);
  /** Resolves when so many calls have come in all. */
  reached(count: number): Promise<void>;
  close(): Promise<void>;
}

export async function startReceiver(
  options: { tls?: { key: string; cert: string }; host?: string; port?: number } = {},
): Promise<WebhookReceiver> {
  const sockets = new Set<Socket>();
  const listener: http.RequestListener = (request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts).toString();
      const event = (body.startsWith('{') ? JSON.parse(body) : {}) as SeenEvent;
      const call = { headers: request.headers, path: request.url ?? '', body, event, socket: request.socket };
      receiver.calls.push(call);
      const said = typeof receiver.answer === 'function' ? receiver.answer(call) : receiver.answer;
      respond(response, said);
    });
  };
  const server = options.tls === undefined ? http.createServer(listener) : https.createServer(options.tls, listener);
  server.keepAliveTimeout = 0;
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(options.port ?? 0, options.host ?? '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const receiver: WebhookReceiver = {
    url: `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${String(port)}/hook`,
    port,
    calls: [],
    answer: 204,
    async reached(count) {
      while (receiver.calls.length < count) await turn();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}

function respond(response: http.ServerResponse, said: HookAnswer): void {
  if (said === 'hang') return;
  if (said === 'drop') {
    response.destroy();
    return;
  }
  const { status, headers = {}, body = '' } = typeof said === 'number' ? { status: said } : said;
  response.writeHead(status, headers).end(body);
}

/**
 * What a receiver does, written from the Standard Webhooks specification: the signed content is id, timestamp and body joined
 * by dots; one of the signatures in the list must be right; the time may be five minutes off. Gives the reason for a refusal.
 */
export function verifyCall(call: Pick<ReceivedCall, 'headers' | 'body'>, secret: string, now: number): string | null {
  const header = (name: string): string => {
    const value = call.headers[name];
    return typeof value === 'string' ? value : '';
  };
  const [id, timestamp, signatures] = [header('webhook-id'), header('webhook-timestamp'), header('webhook-signature')];
  if (id === '' || id.includes('.') || timestamp === '' || signatures === '') return 'headers';
  if (!/^\d+$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) > 300) return 'timestamp';
  if (!secret.startsWith('whsec_')) return 'secret';
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.${call.body}`).digest('base64');
  const isSigned = signatures.split(' ').some((one) => {
    const [version, signature] = one.split(',');
    return version === 'v1' && signature === wanted;
  });
  return isSigned ? null : 'signature';
}
