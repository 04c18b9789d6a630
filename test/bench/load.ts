/**
 * The load: sends `count` mails over `connections` kept connections, or over one for each mail, once its standard input ends, and tells
 * how long the answers took. A process of its own, on plain sockets: an HTTP client library would take as much of the machine as the
 * server it measures. Its argument is a `LoadOrder` of drive.ts.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import type { LoadOrder } from './drive.ts';
import { isWhole } from './http-answer.ts';

const { url, key, count, connections, offset, domains, json, isFresh } = JSON.parse(process.argv[2] ?? '') as LoadOrder;
const { hostname, port } = new URL(url);
const times: number[] = [];
let next = offset;
const end = next + count;
let refused = 0;

const tail = readFileSync(json, 'latin1');
const head = `POST /v1/messages HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${isFresh ? 'Connection: close\r\n' : ''}`;

/** One domain is `dest.test`; several have numbers. */
const domainOf = (n: number): string => (domains === 1 ? 'dest.test' : `dest${String(n % domains)}.test`);

function request(n: number): string {
  const payload = `{"from":"Bench <hi@bench.test>","to":"r${String(n)}@${domainOf(n)}","subject":"Order ${String(n)}",${tail}`;
  return `${head}Idempotency-Key: ${randomUUID()}\r\nContent-Length: ${String(payload.length)}\r\n\r\n${payload}`;
}

/** One connection: a request, its answer, the next; or its end, and a connection for the next. */
function connection(): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), hostname);
    let started = performance.now();
    let text = '';
    const more = (): void => {
      if (next >= end) {
        socket.end();
        return;
      }
      socket.write(request(next++), 'latin1');
    };
    socket.on('connect', more);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!isWhole(text)) return;
      times.push(performance.now() - started);
      if (!text.startsWith('HTTP/1.1 202')) refused++;
      text = '';
      if (isFresh) return;
      started = performance.now();
      more();
    });
    socket.on('error', reject).on('close', () => {
      resolve();
    });
  });
}

async function worker(): Promise<void> {
  do await connection();
  while (isFresh && next < end);
}

process.stdout.write('ready\n');
await once(process.stdin.resume(), 'end');
await Promise.all(Array.from({ length: connections }, worker));
times.sort((a, b) => a - b);
const at = (part: number): number => times[Math.floor(times.length * part)] ?? 0;
process.stdout.write(JSON.stringify({ sent: times.length, refused, p50: at(0.5), p99: at(0.99) }) + '\n');
