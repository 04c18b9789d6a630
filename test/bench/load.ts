/** The load: sends `count` mails over `connections` kept connections and tells how long the answers took. A process of its own. */
import http from 'node:http';
import { randomUUID } from 'node:crypto';

const [url = '', key = '', count = '1000', connections = '50', html = '4096', offset = '0'] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: Number(connections) });
const body = `<html><body>${'<p>Good day, here is what you ordered.</p>\n'.repeat(Math.ceil(Number(html) / 43))}`.slice(0, Number(html));
const times: number[] = [];
let next = Number(offset);
const end = next + Number(count);
let refused = 0;

function post(n: number): Promise<void> {
  const payload = JSON.stringify({ from: 'Bench <hi@bench.test>', to: `r${String(n)}@dest.test`, subject: `Order ${String(n)}`, html: body });
  return new Promise((resolve, reject) => {
    const started = performance.now();
    const request = http.request(
      `${url}/v1/messages`,
      {
        agent,
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(payload),
          'idempotency-key': randomUUID(),
        },
      },
      (response) => {
        response.resume().on('end', () => {
          times.push(performance.now() - started);
          if (response.statusCode !== 202) refused++;
          resolve();
        });
      },
    );
    request.on('error', reject).end(payload);
  });
}

async function worker(): Promise<void> {
  while (next < end) await post(next++);
}

await Promise.all(Array.from({ length: Number(connections) }, worker));
agent.destroy();
times.sort((a, b) => a - b);
const at = (part: number): number => times[Math.floor(times.length * part)] ?? 0;
process.stdout.write(JSON.stringify({ sent: times.length, refused, p50: at(0.5), p99: at(0.99) }) + '\n');
