/** Serves the dashboard on its own port, if the setting `dashboard.port` differs from the API's. */
import http from 'node:http';
import https from 'node:https';
import { headLimits, takeRequests } from '../api/client-errors.ts';
import type { Newcomers } from '../api/newcomers.ts';
import { logAcceptErrors, closeAtOnce, listenOn } from '../net/listening.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Dashboard } from './dashboard.ts';

export interface OwnPort {
  /** Takes a renewed certificate into use for new connections; nothing if the port speaks plain HTTP. */
  setCertificate(renewed: { cert: string; key: string }): void;
  /** Closes the server and all its connections at once: no answer of the dashboard is worth waiting for. */
  close(): Promise<void>;
}

const HEAD_MS = 30_000;
const REQUEST_MS = 120_000;

/** Starts the server. Rejects if the port cannot be opened. */
export async function listenApart(
  deps: { clock: Clock; log: Log; newcomers: Newcomers },
  dashboard: Dashboard,
  { host, port, tls }: { host: string; port: number; tls: { cert: string; key: string } | null },
): Promise<OwnPort> {
  const limits = { ...headLimits, headersTimeout: HEAD_MS, requestTimeout: REQUEST_MS };
  const listener = (request: http.IncomingMessage, response: http.ServerResponse): void => {
    dashboard.handle(request, response);
  };
  const server =
    tls === null ? http.createServer(limits) : https.createServer({ ...limits, ...tls, minVersion: 'TLSv1.2' });
  takeRequests(server, listener);
  logAcceptErrors(deps, server, 'dashboard');
  deps.newcomers.watch(server);
  await listenOn(server, { host, port });
  return {
    setCertificate(renewed) {
      if (server instanceof https.Server) server.setSecureContext({ ...renewed, minVersion: 'TLSv1.2' });
    },
    close: () => closeAtOnce(server),
  };
}
