/**
 * `npm run bench:wan`: a receiver that is 50 ms away. Says how many round trips a message takes on warm connections, and how
 * resident memory moves while mail goes to 200 lanes over hundreds of connections. Exit 1 above 2.2 round trips, or if memory
 * grows by more than a tenth in the second half.
 */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { parseArgs } from 'node:util';
import { startDnsServer } from '../support/fake-dns-server.ts';
import type { Zones } from '../support/zones.ts';
import { benchKey, startAppliance } from './appliance.ts';
import { post } from './latency.ts';

const { values: options } = parseArgs({
  options: {
    mails: { type: 'string', default: '8000' },
    lanes: { type: 'string', default: '200' },
    /** Connections a lane may have. */
    each: { type: 'string', default: '3' },
    'round-trip': { type: 'string', default: '50' },
  },
});
const MOST_ROUND_TRIPS = 2.2;
const PER_CALL = 1000;
const roundTripMs = Number(options['round-trip']);
const seen = { mails: 0, warmMails: 0, warmTurns: 0, connections: 0, open: 0, most: 0 };

/** Answers each burst of commands at once, one round trip after it came: what came meanwhile belongs to the next turn. */
function receive(socket: Socket): void {
  let text = '';
  let inMessage = false;
  let turns = 0;
  let mails = 0;
  let timer: NodeJS.Timeout | null = null;
  seen.connections++;
  seen.open++;
  seen.most = Math.max(seen.most, seen.open);
  const answer = (): void => {
    timer = null;
    turns++;
    let out = '';
    for (;;) {
      const mark = inMessage ? '\r\n.\r\n' : '\r\n';
      const end = text.indexOf(mark);
      if (end < 0) break;
      const line = text.slice(0, end);
      text = text.slice(end + mark.length);
      if (inMessage) {
        inMessage = false;
        out += '250 2.0.0 taken\r\n';
        // The first mail of a connection pays for its opening.
        if (mails++ > 0) {
          seen.warmMails++;
          seen.warmTurns += turns;
        }
        seen.mails++;
        turns = 0;
      } else if (line.startsWith('EHLO')) out += '250-mx\r\n250-PIPELINING\r\n250 8BITMIME\r\n';
      else if (line === 'DATA') {
        inMessage = true;
        out += '354 go ahead\r\n';
      } else if (line === 'QUIT') {
        socket.end('221 2.0.0 bye\r\n');
        return;
      } else out += '250 2.0.0 ok\r\n';
    }
    if (out !== '') socket.write(out);
  };
  socket.setNoDelay(true);
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    timer ??= setTimeout(answer, roundTripMs);
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    seen.open--;
    if (timer !== null) clearTimeout(timer);
  });
  setTimeout(() => socket.write('220 mx ESMTP\r\n'), roundTripMs);
}

const server = createServer(receive).listen(0, '127.0.0.1', 2048);
await new Promise((resolve) => server.once('listening', resolve));
const zones: Zones = {};
for (let n = 0; n < Number(options.lanes); n++) {
  zones[`far${String(n)}.test MX`] = [`10 mx.far${String(n)}.test`];
  zones[`mx.far${String(n)}.test A`] = ['127.0.0.1'];
}
const dns = await startDnsServer(zones);
const appliance = await startAppliance({
  env: {
    POSTHORN_DELIVERY__DNS_SERVERS: dns.address,
    POSTHORN_DELIVERY__REMOTE_PORT: String((server.address() as AddressInfo).port),
    POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: options.each,
    POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: options.each,
  },
});
try {
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const count = Number(options.mails);
  const started = performance.now();
  for (let at = 0; at < count; at += PER_CALL) {
    const recipients = Array.from({ length: Math.min(PER_CALL, count - at) }, (_, n) => ({ to: `r${String(at + n)}@far${String((at + n) % Number(options.lanes))}.test` })); // prettier-ignore
    await post(appliance, key, { from: 'hi@bench.test', subject: 'x', text: 'x', recipients });
  }
  let half = 0;
  let most = 0;
  while (seen.mails < count) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    if (seen.mails < count / 2) half = Math.max(half, appliance.rss());
    else most = Math.max(most, appliance.rss());
    if (performance.now() - started > 10 * 60_000) throw new Error(`only ${String(seen.mails)} mails came`);
  }
  const seconds = (performance.now() - started) / 1000;
  const turns = seen.warmTurns / seen.warmMails;
  console.log(`${String(count)} mails to ${options.lanes} lanes ${String(roundTripMs)} ms away in ${seconds.toFixed(1)} s, over up to ${String(seen.most)} connections at once (${String(seen.connections)} in all)`); // prettier-ignore
  console.log(`round trips a message on warm connections: ${turns.toFixed(2)} (limit ${String(MOST_ROUND_TRIPS)})`);
  console.log(
    `resident memory: at most ${half.toFixed(0)} MiB in the first half, ${most.toFixed(0)} MiB in the second`,
  );
  if (turns > MOST_ROUND_TRIPS || most > half * 1.1) process.exitCode = 1;
} finally {
  await appliance.kill();
  await dns.close();
  server.close();
}
