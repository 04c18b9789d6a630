/** Requests at an even rate, sent by a process of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

export interface PacedHead {
  host: string;
  port: number;
  perSecond: number;
  /** The status that each answer must have. */
  status: number;
  /** The times of so many of the first are not told: both sides are warm only then. */
  uncounted: number;
  /** Octets of each request. */
  lengths: readonly number[];
}

export interface PacedRequests {
  /** `http://host:port`. */
  url: string;
  perSecond: number;
  status: number;
  /** None unless given; see `PacedHead`. */
  uncounted?: number;
  /** Each whole, its head and its body; see `httpRequest`. */
  requests: readonly string[];
}

/** Resolves with how long each answer took, in ms, in the order of the answers. */
export async function paced({ url, perSecond, status, uncounted = 0, requests }: PacedRequests): Promise<number[]> {
  const { hostname: host, port } = new URL(url);
  const bytes = requests.map((request) => Buffer.from(request));
  const head: PacedHead = {
    host,
    port: Number(port),
    perSecond,
    status,
    uncounted,
    lengths: bytes.map(({ length }) => length),
  };
  const program = new URL('paced-load.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, ['--import', 'tsx', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), ...bytes]));
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the load ended with ${String(code)}`);
  return JSON.parse(text) as number[];
}

export function httpRequest(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body = '',
): string {
  const all = {
    Host: 'bench.test',
    ...headers,
    ...(body === '' ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`;
}
