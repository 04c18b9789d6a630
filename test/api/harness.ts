/** A running API shell for tests: everything that is handed in is data, and a client that sends exactly what it is told. */
import assert from 'node:assert/strict';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import type { AddressInfo } from 'node:net';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { z } from 'zod';
import type { AuditRow, IdempotencyRow, RequestDetailsRow } from '../../src/storage/tables.ts';
import { openapiDocument, openapiRoute } from '../../src/api/openapi.ts';
import { route } from '../../src/api/route.ts';
import type { Route } from '../../src/api/route.ts';
import { createApi } from '../../src/api/server.ts';
import type { ApiDeps, ApiSettings } from '../../src/api/server.ts';
import { createNotifier } from '../../src/scheduling/notifier.ts';
import { Problem } from '../../src/base/problem.ts';
import type { Caller } from '../../src/keys/caller.ts';
import { contractOf, type Contract } from '../support/harness/contract.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

export const KEY = 'ak_live_good';

export const someCaller: Caller = {
  accountId: 'acc_one',
  keyId: 'key_one',
  keyName: 'App',
  mode: 'live',
  scopes: ['send', 'campaign', 'message:read', 'template'],
  domains: [],
  allowedIps: [],
  plan: 'standard',
  paused: false,
  expiresAt: null,
  revokedAt: null,
};

export interface Harness {
  api: ReturnType<typeof createApi>;
  port: number;
  clock: FakeClock;
  audits: (AuditRow & { waited: boolean })[];
  details: RequestDetailsRow[];
  /** `key address` of each use that was noted. */
  uses: string[];
  rows: Map<string, IdempotencyRow>;
  logged: object[];
  send(method: string, path: string, options?: SendOptions): Promise<Received>;
  /** Writes bytes to a fresh connection and gives all that came back when the other side has closed. */
  raw(...pieces: (string | Buffer)[]): Promise<string>;
  stop(): Promise<void>;
}

export interface SendOptions {
  /** Over HTTPS, trusting this certificate authority. */
  ca?: string;
  /** Null sends no Authorization header. */
  key?: string | null;
  headers?: http.OutgoingHttpHeaders;
  /** An object is sent as JSON with its Content-Type. */
  body?: object | string | Buffer;
}

export interface Received {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
  bytes: Buffer;
  json: unknown;
  error: { code: string; message: string; field: string | null; request_id: string };
}

export interface HarnessOptions {
  routes?: readonly Route[];
  callers?: Readonly<Record<string, Caller>>;
  settings?: Partial<ApiSettings>;
  deps?: Partial<ApiDeps>;
}

export async function startHarness(options: HarnessOptions = {}): Promise<Harness> {
  const clock = new FakeClock();
  const audits: Harness['audits'] = [];
  const details: RequestDetailsRow[] = [];
  const uses: string[] = [];
  const rows: Harness['rows'] = new Map();
  const logged: object[] = [];
  const callers = new Map(Object.entries({ [KEY]: someCaller, ...options.callers }));
  const log = (fields: object): void => void logged.push(fields);
  const api = createApi(
    {
      clock,
      log: { error: log, warn: log, debug: () => undefined },
      authenticate: (token) => {
        const caller = callers.get(token);
        return Promise.resolve(caller === undefined ? { kind: 'unknown' } : { kind: 'found', caller });
      },
      noteUse: (keyId, ip) => void uses.push(`${keyId} ${ip}`),
      keyChanges: createNotifier(),
      planLimit: (plan) => ({ tiny: 3, standard: 600 })[plan] ?? 1_000_000,
      audit: {
        write: (row, more) => {
          audits.push({ ...row, waited: true });
          if (more != null) details.push(more);
          return Promise.resolve();
        },
        later: (row, more) => {
          audits.push({ ...row, waited: false });
          if (more != null) details.push(more);
        },
        note: (more) => void details.push(more),
      },
      idempotency: { store: memoryStore(rows, clock), onMismatch: 'replay' },
      ready: () => Promise.resolve({ status: 'ok', checks: { database: true } }),
      ...options.deps,
      settings: {
        publicUrl: 'http://api.test',
        version: '1.2.3',
        trustedProxies: [],
        anonymousPerMinute: 1000,
        ...options.settings,
      },
    },
    options.routes ?? someRoutes,
  );
  await new Promise<void>((resolve) => api.server.listen(0, '127.0.0.1', resolve));
  const { port } = api.server.address() as AddressInfo;
  const contract = contractFor(options.routes ?? someRoutes);
  return {
    api,
    port,
    clock,
    audits,
    details,
    uses,
    rows,
    logged,
    async send(method, path, sendOptions) {
      const received = await send(port, method, path, sendOptions);
      const header = (name: string): string | null => received.headers[name]?.toString() ?? null;
      const breaches = contract.breaches(method, path, { status: received.status, text: plainText(received), header });
      assert.deepEqual(breaches, []);
      return received;
    },
    raw: (...pieces) => raw(port, pieces),
    stop: () => api.close(),
  };
}

function plainText({ bytes, headers }: Received): string {
  const encoding = headers['content-encoding'];
  if (encoding === 'br') return brotliDecompressSync(bytes).toString('utf8');
  return (encoding === 'gzip' ? gunzipSync(bytes) : bytes).toString('utf8');
}

const contracts = new WeakMap<readonly Route[], Contract>();

function contractFor(routes: readonly Route[]): Contract {
  const settings = { publicUrl: 'http://api.test', version: '1.2.3' };
  const contract =
    contracts.get(routes) ?? contractOf(openapiDocument([...routes, openapiRoute(routes, settings)], settings));
  contracts.set(routes, contract);
  return contract;
}

export function memoryStore(rows: Map<string, IdempotencyRow>, clock: FakeClock): ApiDeps['idempotency']['store'] {
  return {
    find: (key) => {
      const row = rows.get(key);
      return Promise.resolve(row !== undefined && row.expires_at > clock.now() ? row : null);
    },
    insert: (row) => {
      rows.set(row.key, row);
      return Promise.resolve();
    },
  };
}

const Send = z.strictObject({
  to: z.string().max(20),
  subject: z.string().optional(),
  recipients: z.array(z.string()).optional(),
});
const anything = {
  200: { description: 'Any.', schema: z.unknown() },
  202: { description: 'Any.', schema: z.unknown() },
};

/** A few endpoints of the kinds there are. */
export const someRoutes: readonly Route[] = [
  route(
    {
      method: 'POST',
      path: '/v1/messages',
      operationId: 'sendMessage',
      description: 'Send.',
      tag: 'messages',
      scope: ['send', 'campaign'],
      scopeFor: (body) => (Object.hasOwn(body, 'recipients') ? 'campaign' : 'send'),
      body: Send,
      responses: anything,
    },
    (call) => ({
      status: 202,
      body: { to: call.body.to, bytes: call.bodyBytes },
      headers: { Location: '/v1/messages/msg_1' },
    }),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/messages',
      operationId: 'listMessages',
      description: 'List.',
      tag: 'messages',
      scope: ['message:read'],
      query: z.strictObject({ limit: z.string().regex(/^\d+$/).optional() }),
      responses: anything,
    },
    (call) => ({ status: 200, body: { limit: call.query.limit ?? null } }),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/messages/{id}',
      operationId: 'getMessage',
      description: 'Read.',
      tag: 'messages',
      scope: ['message:read', 'send', 'campaign'],
      params: z.strictObject({ id: z.string().regex(/^msg_/) }),
      responses: anything,
    },
    (call) => ({ status: 200, body: { id: call.params.id } }),
  ),
  route(
    {
      method: 'POST',
      path: '/v1/fails',
      operationId: 'resendMessage',
      description: 'Fail.',
      tag: 'messages',
      scope: ['send'],
      responses: anything,
    },
    () => {
      throw new Error('a secret of the house');
    },
  ),
  route(
    {
      method: 'POST',
      path: '/v1/full',
      operationId: 'cancelMessage',
      description: 'Be full.',
      tag: 'messages',
      scope: ['send'],
      responses: anything,
    },
    () => {
      throw new Problem('service_unavailable', 'too much at once', { retryAfter: 1 });
    },
  ),
  route(
    {
      method: 'DELETE',
      path: '/v1/settings',
      operationId: 'updateSettings',
      description: 'Delete.',
      tag: 'messages',
      scope: ['settings'],
      responses: { 204: { description: 'Gone.' } },
    },
    () => {
      throw new Problem('invalid_state', 'Not now.');
    },
  ),
];

export function send(port: number, method: string, path: string, options: SendOptions = {}): Promise<Received> {
  const { key = KEY, body } = options;
  const isJson = typeof body === 'object' && !Buffer.isBuffer(body);
  const payload = isJson ? JSON.stringify(body) : body;
  const headers: http.OutgoingHttpHeaders = {
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    ...(payload === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
    ...options.headers,
  };
  return new Promise((resolve, reject) => {
    const where = { port, host: '127.0.0.1', method, path, headers, agent: false };
    const answered = (response: http.IncomingMessage): void => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('error', reject);
      response.on('end', () => {
        const bytes = Buffer.concat(pieces);
        const text = bytes.toString('utf8');
        const json = text.startsWith('{') ? (JSON.parse(text) as { error?: Received['error'] }) : null;
        const error = json?.error ?? { code: '', message: '', field: null, request_id: '' };
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, bytes, json, error });
      });
    };
    const { ca } = options;
    const request = ca === undefined ? http.request(where, answered) : https.request({ ...where, ca }, answered);
    request.on('error', reject);
    request.end(payload);
  });
}

function raw(port: number, pieces: readonly (string | Buffer)[]): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = net.connect(port, '127.0.0.1');
    socket.on('data', (piece) => (text += piece.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      resolve(text);
    });
    for (const piece of pieces) socket.write(piece);
  });
}
