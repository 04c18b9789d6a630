/**
 * `npm run bench -- wan`: a receiver that is 50 ms away. Says how many round trips a message takes on warm connections, and how
 * resident memory moves while mail goes to 200 lanes over hundreds of connections. Exit 1 above 2.2 round trips, or if memory
 * grows by more than a tenth in the second half.
 */
import { parseArgs } from 'node:util';
import { startDnsServer } from '../support/fakes/fake-dns-server.ts';
import type { Zones } from '../support/fakes/zones.ts';
import { benchKey, startAppliance } from './appliance.ts';
import { startFarReceiver } from './far-receiver.ts';
import { post } from './latency.ts';
import { tell } from './report/result.ts';

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
const MOST_GROWTH = 1.1;
const PER_CALL = 1000;
const roundTripMs = Number(options['round-trip']);

const receiver = await startFarReceiver(roundTripMs);
const { seen } = receiver;
const zones: Zones = {};
for (let n = 0; n < Number(options.lanes); n++) {
  zones[`far${String(n)}.test MX`] = [`10 mx.far${String(n)}.test`];
  zones[`mx.far${String(n)}.test A`] = ['127.0.0.1'];
}
const dns = await startDnsServer(zones);
const appliance = await startAppliance({
  env: {
    POSTHORN_DELIVERY__DNS_SERVERS: dns.address,
    POSTHORN_DELIVERY__REMOTE_PORT: String(receiver.port),
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
    const recipients = Array.from({ length: Math.min(PER_CALL, count - at) }, (_, n) => ({
      to: `r${String(at + n)}@far${String((at + n) % Number(options.lanes))}.test`,
    }));
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
  console.log(
    `${String(count)} mails to ${options.lanes} lanes ${String(roundTripMs)} ms away in ${seconds.toFixed(1)} s, over up to ${String(seen.most)} connections at once (${String(seen.connections)} in all)`,
  );
  tell(`round trips a message on warm connections: ${turns.toFixed(2)} (limit ${String(MOST_ROUND_TRIPS)})`, {
    name: 'round trips a message, warm',
    value: turns,
    unit: 'round trips',
    atMost: MOST_ROUND_TRIPS,
  });
  tell(
    `resident memory: at most ${half.toFixed(0)} MiB in the first half, ${most.toFixed(0)} MiB in the second`,
    { name: 'connections at once', value: seen.most, unit: 'connections' },
    {
      name: 'most memory, second half',
      value: most,
      unit: 'MiB',
      atMost: half * MOST_GROWTH,
      peer: { name: 'first half', value: half },
    },
  );
} finally {
  await appliance.kill();
  await dns.close();
  await receiver.close();
}
