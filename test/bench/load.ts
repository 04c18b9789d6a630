/**
 * The load: sends `count` mails over `connections` kept connections, once its standard input ends, and tells how long the
 * answers took. A process of its own,
 * on plain sockets: an HTTP client library would take as much of the machine as the server it measures.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { isWhole } from './http-answer.ts';

const [url = '', key = '', count = '1000', connections = '50', html = '4096', offset = '0', domains = '1'] =
  process.argv.slice(2);
const { hostname, port } = new URL(url);
const body = `<html><body>${'<p>Good day, here is what you ordered.</p>\n'.repeat(Math.ceil(Number(html) / 43))}`.slice(
  0,
  Number(html),
);
const times: number[] = [];
let next = Number(offset);
const end = next + Number(count);
let refused = 0;

const tail = JSON.stringify({ html: body }).slice(1);
const head = `POST /v1/messages HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`;

/** One domain is `dest.test`; several have numbers. */
const domainOf = (n: number): string => (domains === '1' ? 'dest.test' : `dest${String(n % Number(domains))}.test`);

function request(n: number): string {
  const payload = `{"from":"Bench <hi@bench.test>","to":"r${String(n)}@${domainOf(n)}","subject":"Order ${String(n)}",${tail}`;
  return `${head}Idempotency-Key: ${randomUUID()}\r\nContent-Length: ${String(payload.length)}\r\n\r\n${payload}`;
}

/** One connection: a request, its answer, the next. */
function worker(): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), hostname);
    let started = 0;
    let text = '';
    const more = (): void => {
      if (next >= end) {
        socket.end();
        return;
      }
      started = performance.now();
      socket.write(request(next++), 'latin1');
    };
    socket.on('connect', more);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!isWhole(text)) return;
      times.push(performance.now() - started);
      if (!text.startsWith('HTTP/1.1 202')) refused++;
      text = '';
      more();
    });
    socket.on('error', reject).on('close', () => {
      resolve();
    });
  });
}

process.stdout.write('ready\n');
await once(process.stdin.resume(), 'end');
await Promise.all(Array.from({ length: Number(connections) }, worker));
times.sort((a, b) => a - b);
const at = (part: number): number => times[Math.floor(times.length * part)] ?? 0;
process.stdout.write(JSON.stringify({ sent: times.length, refused, p50: at(0.5), p99: at(0.99) }) + '\n');
