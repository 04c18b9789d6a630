/** The webhook endpoints of `npm run torture -- nodes`: they take every call and count them by event. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Hooks {
  readonly urls: readonly string[];
  /** For each endpoint: how often it was called with an event, by the id of the event. */
  readonly calls: readonly Map<string, number>[];
  stop(): void;
}

export async function startHooks(count: number): Promise<Hooks> {
  const calls = Array.from({ length: count }, () => new Map<string, number>());
  const server = http.createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (part: string) => (body += part));
    request.on('error', () => undefined);
    request.on('end', () => {
      const { id } = JSON.parse(body) as { id: string };
      const of = calls[Number(request.url?.slice(1))];
      of?.set(id, (of.get(id) ?? 0) + 1);
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    urls: calls.map((_, at) => `http://127.0.0.1:${String(port)}/${String(at)}`),
    calls,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
