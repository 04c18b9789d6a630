/**
 * `/metrics` for Prometheus: on a separate port (`metrics.port`), or on the API's for clients that know `metrics.token`.
 * Figures that come from the database are read at most every few seconds, however often clients ask.
 */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { equalInConstantTime } from '../../base/secret.ts';
import { HOUR_MS } from '../../base/time.ts';
import { authorityOf, closeAtOnce, listenOn, logAcceptErrors } from '../../net/listening.ts';
import { heldFigures } from '../holds.ts';
import { exposition, EXPOSITION_TYPE, type Family } from './exposition.ts';
import {
  backupFigures,
  balanceFigures,
  bookFigures,
  bounceFigures,
  commitFigures,
  domainFigures,
  fileFigures,
  hindranceFigures,
  laneFigures,
  nodeFigures,
  processFigures,
  queueFigures,
  reportFigures,
  resolverFigures,
  serverFigures,
  webhookFigures,
  type FigureDeps,
} from './figures.ts';
import type { Meters } from './meters.ts';
import type { Nodes } from '../../storage/nodes.ts';

export interface MetricsDeps extends FigureDeps {
  log: Log;
  meters: Meters;
  version: string;
  nodes: Pick<Nodes, 'isLeader' | 'epoch' | 'name' | 'list' | 'hasOthers'>;
}

/** Answers a request for the metrics. Returns false if the request is for another path. */
export type MetricsHandler = (request: IncomingMessage, response: ServerResponse) => boolean;

/** A second scrape within this time sees the same queue. */
const FRESH_MS = 5_000;
/** The same for figures that read more rows. */
const SELDOM_MS = 30_000;

/** With `token` null, every client that reaches the port may read. */
export function metricsHandler(deps: MetricsDeps, token: string | null): MetricsHandler {
  const { clock } = deps;
  const startedAt = clock.now();
  const groups = [
    remembered(clock, FRESH_MS, () => read(deps)),
    remembered(clock, SELDOM_MS, () => backupFigures(deps)),
  ];
  // Figures of the whole installation are shown by the node that leads alone: then sums over all nodes stay true.
  const seldom = [bounceFigures, heldFigures, domainFigures, hindranceFigures, webhookFigures, reportFigures];
  const groupsOfLeader = [
    remembered(clock, FRESH_MS, () => all(deps, [bookFigures, queueFigures])),
    remembered(clock, SELDOM_MS, () => all(deps, seldom)),
    remembered(clock, HOUR_MS, () => balanceFigures(deps)),
  ];

  async function figures(): Promise<Family[]> {
    const asked = deps.nodes.isLeader ? [...groups, ...groupsOfLeader] : groups;
    return (await Promise.all(asked.map((group) => group()))).flat();
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refusal = refused(request, token);
    if (refusal !== null) {
      send(request, response, ...refusal);
      return;
    }
    try {
      const families = [
        ...(await figures()),
        ...deps.meters.families(),
        ...processFigures({ version: deps.version, startedAt }),
      ];
      send(request, response, 200, exposition(families), { 'content-type': EXPOSITION_TYPE });
    } catch (error) {
      deps.log.error({ event: 'metrics_failed', err: error }, 'the metrics could not be read');
      send(request, response, 503, 'the figures could not be read; see the log\n');
    }
  }

  return (request, response) => {
    if (pathOf(request) !== '/metrics') return false;
    void answer(request, response);
    return true;
  };
}

/** Reads at most once in `ms`, however often it is called; a failed reading is not kept. */
function remembered(clock: Clock, ms: number, read: () => Promise<Family[]>): () => Promise<Family[]> {
  let kept: { at: number; figures: Promise<Family[]> } | null = null;
  return () => {
    if (kept !== null && clock.monotonic() - kept.at <= ms) return kept.figures;
    const figures = read();
    kept = { at: clock.monotonic(), figures };
    figures.catch(() => (kept = null));
    return figures;
  };
}

type Read = (deps: MetricsDeps) => Promise<Family[]>;

const all = async (deps: MetricsDeps, reads: readonly Read[]): Promise<Family[]> =>
  (await Promise.all(reads.map((one) => one(deps)))).flat();

async function read(deps: MetricsDeps): Promise<Family[]> {
  const files = await fileFigures(deps);
  return [
    ...commitFigures(deps),
    ...resolverFigures(deps),
    ...(await laneFigures(deps)),
    ...serverFigures(deps),
    ...nodeFigures(deps.nodes),
    ...files,
  ];
}

const pathOf = ({ url = '' }: IncomingMessage): string => url.split('?', 1)[0] ?? '';

type Refusal = readonly [status: number, text: string, headers?: Record<string, string>];

function refused({ method, headers }: IncomingMessage, token: string | null): Refusal | null {
  if (method !== 'GET' && method !== 'HEAD') return [405, 'only GET\n', { allow: 'GET, HEAD' }];
  const given = /^bearer +(\S+) *$/i.exec((headers.authorization ?? '').slice(0, 5000))?.[1] ?? '';
  if (token === null || equalInConstantTime(given, token)) return null;
  return [401, 'send `Authorization: Bearer <metrics.token>`\n', { 'www-authenticate': 'Bearer realm="metrics"' }];
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    ...headers,
    // A request body is unexpected here, and is not read.
    ...(request.method === 'GET' || request.method === 'HEAD' ? {} : { connection: 'close' }),
  });
  response.end(request.method === 'HEAD' ? undefined : text);
}

const HEAD_MS = 10_000;

export type MetricsServer = Awaited<ReturnType<typeof serveMetrics>>;

/** Listens on the separate port. Rejects if the port is taken. */
export async function serveMetrics(
  deps: { clock: Clock; log: Log },
  handler: MetricsHandler,
  host: string,
  port: number,
): Promise<{ url: string; close(): Promise<void> }> {
  const server = http.createServer(
    { requestTimeout: HEAD_MS, headersTimeout: HEAD_MS, maxHeaderSize: 16 * 1024 },
    (request, response) => {
      if (!handler(request, response)) send(request, response, 404, 'only /metrics is here\n');
    },
  );
  server.maxConnections = 64;
  logAcceptErrors(deps, server, 'metrics');
  await listenOn(server, { host, port });
  return { url: `http://${authorityOf(server)}/metrics`, close: () => closeAtOnce(server) };
}
