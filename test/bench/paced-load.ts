/**
 * Sends requests that stand ready at an even rate, whether or not earlier ones have been answered, and tells how long each
 * answer took. A process of its own, on plain sockets: a client library collects garbage in pauses as long as what is measured.
 *
 * In: one JSON object, then each request after its length. Out: the times in ms.
 */
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { isWhole } from './http-answer.ts';
import type { PacedHead } from './paced.ts';

const input = readFileSync(0);
const headEnd = input.indexOf('\n');
const { host, port, perSecond, status, uncounted, lengths } = JSON.parse(
  input.toString('utf8', 0, headEnd),
) as PacedHead;
const requests: Buffer[] = [];
for (let at = headEnd + 1; requests.length < lengths.length;) {
  const end = at + (lengths[requests.length] ?? 0);
  requests.push(input.subarray(at, end));
  at = end;
}

const times: number[] = [];
const idle: Client[] = [];
let end = (): void => undefined;
let fail: (error: Error) => void = () => undefined;
const ended = new Promise<void>((resolve, reject) => {
  end = resolve;
  fail = reject;
});

/** A kept connection that carries one request at a time. */
class Client {
  private readonly socket = net.connect(port, host).setNoDelay();
  private text = '';
  private begun = 0;

  constructor() {
    this.socket.on('error', fail).on('data', (chunk) => {
      const took = performance.now() - this.begun;
      this.text += chunk.toString('latin1');
      if (!isWhole(this.text)) return;
      if (!this.text.startsWith(`HTTP/1.1 ${String(status)} `)) fail(new Error(this.text));
      this.text = '';
      times.push(took);
      idle.push(this);
      if (times.length === requests.length) end();
    });
  }

  send(request: Buffer): void {
    this.begun = performance.now();
    this.socket.write(request);
  }
}

const begun = performance.now();
let sent = 0;
while (sent < requests.length) {
  const due = Math.min(requests.length, Math.floor(((performance.now() - begun) / 1000) * perSecond) + 1);
  for (; sent < due; sent++) (idle.pop() ?? new Client()).send(requests[sent] ?? Buffer.alloc(0));
  await new Promise((resolve) => setTimeout(resolve, 1));
}
await ended;
process.stdout.write(JSON.stringify(times.slice(uncounted)), () => process.exit());
