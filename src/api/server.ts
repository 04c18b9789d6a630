/**
 * The API's HTTP server: Koa with its middleware in the fixed order of the checks, and the declared routes.
 *
 *   respond      gives the request its id; at the end writes the answer
 *   audit        writes the audit line
 *   problem      turns an error into the envelope
 *   (router)     finds the route
 *   identify     looks the key up; counts the request
 *   admit        unreadable, stopping, 404, 405, 401, 403, 429, 410, 406
 *   body         415, 413, invalid JSON
 *   scope        403
 *   idempotency  invalid key, replay
 *   run          fields, handler
 *
 * The control socket is a second server with the same layers, but that the operator is its caller (middleware/run.ts).
 */
import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import Koa from 'koa';
import { Router } from '@koa/router';
import { answerClientErrors, headLimits, takeRequests } from './client-errors.ts';
import { addressBucket, addressList } from '../net/ip.ts';
import { clientAddress, isNewProxy, isSecure } from './client-address.ts';
import { compatRoutes } from './compat/routes.ts';
import { withAdapter } from './compat/services.ts';
import { openExchange, type ApiDeps, type Exchange, type Shell, type ShellState } from './exchange.ts';
import { healthRoutes } from './health.ts';
import { createIntake } from '../messages/accept/intake.ts';
import { BodyMemory, bodyLimits, inviteLater } from './body.ts';
import { InFlight, idempotency } from './idempotency.ts';
import { createJsonReader } from './json-reader.ts';
import { mcpRoute } from './mcp.ts';
import { body } from './middleware/body.ts';
import { admit, identify, scope, type KnownPath } from './middleware/admit.ts';
import { audit, StrangerLines } from './audit.ts';
import { admitOperator, operate, type OperatorDoor, run } from './middleware/run.ts';
import { problem, respond } from './answer.ts';
import { Newcomers } from './newcomers.ts';
import { openapiRoute } from './openapi.ts';
import type { Route } from './route.ts';
import { logAcceptErrors } from '../net/listening.ts';
import { RateWindows } from '../scheduling/rate-windows.ts';

export type { ApiDeps, ApiSettings } from './exchange.ts';

export interface Api {
  /** Not listening yet. */
  server: http.Server;
  readonly routes: readonly Route[];
  /** Serves these pages on the same port from now on. */
  share(others: OtherPages): void;
  /** Uses another certificate for new connections; does nothing if the API speaks plain HTTP. */
  setCertificate(tls: { cert: string; key: string }): void;
  /** Refuses new requests, waits for running ones (up to `drainMs`), then closes everything. */
  close(): Promise<void>;
}

const ANONYMOUS_PER_MINUTE = 60;
const DRAIN_MS = 10_000;
const UNREAD_MS = 60_000;

/** Other pages on the same port; all other requests are the API's. */
export interface OtherPages {
  owns(request: http.IncomingMessage): boolean;
  handle(request: http.IncomingMessage, response: http.ServerResponse): void;
}

/** With `door` it is the server of the control socket. */
export function createApi(deps: ApiDeps, routes: readonly Route[], door?: OperatorDoor): Api {
  const { settings, clock } = deps;
  if (door === undefined && routes.some(({ scope: needed }) => needed === 'server'))
    throw new Error('no port serves the operations of the server');
  const limits = { ...bodyLimits, ...settings.body };
  const shell: Shell = {
    ...deps,
    accountWindows: deps.accountWindows ?? new RateWindows(),
    addressWindows: new RateWindows(),
    anonymous: settings.anonymousPerMinute ?? ANONYMOUS_PER_MINUTE,
    bodyMemory: deps.bodyMemory ?? new BodyMemory(limits.heldBytes),
    intake: deps.intake ?? createIntake(deps),
    newcomers: deps.newcomers ?? new Newcomers(settings.trustedProxies),
    strangerLines: deps.strangerLines ?? new StrangerLines(deps.usedUp),
    limits,
    stop: { begun: false, listeners: new Set() },
    reader: createJsonReader(deps),
    inFlight: new InFlight({ clock, store: deps.idempotency.store }),
  };
  const handle = createApp(shell, routes, door).callback();
  let sharing: OtherPages | null = null;
  const server = createServer(settings, (req, res) => {
    endUnread(res, settings.unreadMs ?? UNREAD_MS);
    req.url = withAdapter(originForm(req.url ?? '/'), req.headers);
    if (door === undefined && deps.beside?.(req, res) === true) return;
    if (sharing?.owns(req) === true) sharing.handle(req, res);
    else void handle(req, res);
  });
  logAcceptErrors(deps, server, 'api');
  if (door === undefined) shell.newcomers.watch(server);
  answerClientErrors(
    {
      clock,
      usedUp: deps.usedUp,
      count: (remote) =>
        shell.addressWindows.take(
          addressBucket(clientAddress(remote, undefined, addressList([]))),
          shell.anonymous,
          clock.now(),
        ),
    },
    server,
  );
  return {
    server,
    routes,
    share(others) {
      sharing = others;
    },
    setCertificate(tls) {
      if (server instanceof https.Server) server.setSecureContext({ ...tls, minVersion: 'TLSv1.2' });
    },
    close: closer(shell, server),
  };
}

function createApp(shell: Shell, routes: readonly Route[], door: OperatorDoor | undefined): Koa<ShellState> {
  const { settings, inside } = shell;
  const router = createRouter(
    door === undefined
      ? [
          ...routes,
          ...compatRoutes(routes, settings),
          ...(inside === undefined ? [] : [mcpRoute(inside, routes, settings)]),
          openapiRoute(routes, settings),
          ...healthRoutes(shell),
        ]
      : routes,
  );
  const known = (path: string): KnownPath => {
    const layers = router.match(path, '').path;
    const patterns = layers.map((layer) => String(layer.path).replaceAll(/:(\w+)/g, '{$1}'));
    return {
      methods: [...new Set(layers.flatMap((layer) => layer.methods))],
      pattern: patterns.find((one) => one === path) ?? patterns[0] ?? null,
    };
  };
  const app = new Koa<ShellState>();
  app.on('error', (err: unknown) => {
    shell.log.debug({ err }, 'a connection broke');
  });
  app.use(respond(shell, exchangeOpener(shell)));
  if (door === undefined) app.use(audit(shell));
  app.use(problem(shell, door?.problemOf));
  app.use(router.routes());
  app.use(door === undefined ? identify(shell) : admitOperator(door));
  app.use(admit(shell, known));
  app.use(body(shell));
  if (door !== undefined) return app.use(operate(shell, door));
  return app.use(scope).use(idempotency(shell)).use(run(shell));
}

/** Finds the route of a request, a literal path before a pattern. `admit` refuses others, after the key has been looked up. */
function createRouter(routes: readonly Route[]): Router<ShellState> {
  const router = new Router<ShellState>({ sensitive: true, strict: true, exclusive: 'specificity' });
  for (const route of routes) {
    const path = route.path.replaceAll(/\{([^}]+)\}/g, ':$1');
    // Programs that look for links in a mail may add a slash to those of our pages.
    router.register(route.page === true ? [path, `${path}/`] : path, [route.method], (ctx, next) => {
      ctx.state.exchange.route = route;
      ctx.state.exchange.params = ctx.params;
      return next();
    });
  }
  return router;
}

function exchangeOpener(shell: Shell): (request: http.IncomingMessage) => Exchange {
  const { clock, log, unknownProxies, settings } = shell;
  const trusted = addressList(settings.trustedProxies);
  return (request) => {
    const forwarded = request.headers['x-forwarded-for'];
    const remote = request.socket.remoteAddress;
    const ip = clientAddress(remote, typeof forwarded === 'string' ? forwarded : undefined, trusted);
    if (forwarded !== undefined && unknownProxies !== undefined && isNewProxy(unknownProxies, remote, trusted))
      log.warn(
        { event: 'proxy_not_trusted', ip: remote },
        'all clients behind a proxy that is not in http.trustedProxies count as one',
      );
    return openExchange(clock, request, {
      ip,
      rate: shell.addressWindows.peek(addressBucket(ip), shell.anonymous, clock.now()),
      isSecure: isSecure(request, settings.publicUrl, trusted),
    });
  };
}

/** Closes the connection of a client that takes nothing of its answer for so long, which would stay in memory as long as the client likes. */
function endUnread(res: http.ServerResponse, ms: number): void {
  res.setTimeout(ms, () => {
    if (res.writableLength > 0) res.destroy();
  });
}

/** Returns the path of a target: a server must accept `GET http://host/path` too (RFC 9112 section 3.2.2). An invalid target becomes an invalid path. */
function originForm(target: string): string {
  if (target.startsWith('/') || target === '*') return target;
  if (!URL.canParse(target)) return '/%';
  const { pathname, search } = new URL(target);
  return pathname + search;
}

function createServer(settings: ApiDeps['settings'], listener: http.RequestListener): http.Server {
  const headMs = settings.headMs ?? 30_000;
  const options: http.ServerOptions = {
    ...headLimits,
    headersTimeout: headMs,
    requestTimeout: settings.requestMs ?? 300_000,
    keepAliveTimeout: settings.keepAliveMs ?? 72_000,
    // Interval at which Node checks the two limits above, which may be late by it.
    connectionsCheckingInterval: Math.min(1_000, settings.headMs ?? 1_000),
    // Node's own answer to a missing Host has neither envelope nor headers; ours has.
    requireHostHeader: false,
  };
  const server =
    settings.tls === undefined
      ? http.createServer(options)
      : https.createServer({ ...options, ...settings.tls, minVersion: 'TLSv1.2', handshakeTimeout: headMs });
  server.on('checkExpectation', takeRequests(server, listener));
  server.on('checkContinue', (req: http.IncomingMessage, res: http.ServerResponse) => {
    inviteLater(req, res);
    server.emit('request', req, res);
  });
  return server;
}

/** Closes the server: at once what is between two requests, the rest after its answer or when the time is over. */
function closer({ clock, settings, stop, reader }: Shell, server: http.Server): () => Promise<void> {
  // Also those in the TLS handshake, which Node does not close.
  const open = new Set<Socket>();
  const remember = (socket: Socket): void => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  };
  server.on('connection', remember).on('secureConnection', remember);
  server.prependListener('request', (_: http.IncomingMessage, res: http.ServerResponse) => {
    res.once('close', () => {
      if (stop.begun) setImmediate(() => server.closeIdleConnections());
    });
  });
  const close = async (): Promise<void> => {
    stop.begun = true;
    for (const listener of [...stop.listeners]) listener();
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    server.closeIdleConnections();
    // Browsers open connections in advance, which Node does not take for idle before their first request.
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
    const late = clock.after(settings.drainMs ?? DRAIN_MS, () => {
      for (const socket of open) socket.destroy();
    });
    await closed;
    late.cancel();
    await reader.close();
  };
  let closing: Promise<void> | null = null;
  return () => (closing ??= close());
}
