/**
 * `npm run bench -- wan-connections`: a receiver 50 ms away at more and more connections. As long as the round trips are the limit, the
 * rate grows with the connections: up to 200 it has to keep 90 % of what each connection gives at the first count. From there on the
 * processor is the limit, and the peer is the same mail to the same number of connections without the distance. Exit 1 where less
 * than 90 % of either is reached, or where memory at the most connections grows by more than a tenth in the second half of a run.
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
    connections: { type: 'string', default: '100,200,500' },
    'round-trip': { type: 'string', default: '50' },
    /** Of mail for each number of connections, if round trips were the limit. */
    seconds: { type: 'string', default: '20' },
  },
});
const roundTripMs = Number(options['round-trip']);
const counts = options.connections.split(',').map(Number);
const LEAST_SHARE = 0.9;
const MOST_GROWTH = 1.1;
const ROUND_TRIPS = 2;
/** Above so many connections the processor may be the limit. */
const MOST_LINEAR = 200;
const EACH = 5;
const PER_CALL = 1000;
const PATIENCE_MS = 300_000;
/** The beginning, when connections are opened, and the end, when lanes run empty, are not measured. */
const FROM = 0.3;
const TO = 0.8;

interface Measured {
  rate: number;
  most: number;
  firstMib: number;
  lastMib: number;
}

async function run(connections: number, distanceMs: number): Promise<Measured> {
  const lanes = Math.max(1, Math.ceil(connections / EACH));
  const perSecond = (connections * 1000) / (roundTripMs * ROUND_TRIPS);
  const mails = Math.ceil(perSecond * Number(options.seconds));
  const receiver = await startFarReceiver(distanceMs);
  const { seen } = receiver;
  const zones: Zones = {};
  for (let n = 0; n < lanes; n++) {
    zones[`far${String(n)}.test MX`] = [`10 mx.far${String(n)}.test`];
    zones[`mx.far${String(n)}.test A`] = ['127.0.0.1'];
  }
  const dns = await startDnsServer(zones);
  const appliance = await startAppliance({
    env: {
      POSTHORN_DELIVERY__DNS_SERVERS: dns.address,
      POSTHORN_DELIVERY__REMOTE_PORT: String(receiver.port),
      POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: String(EACH),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(EACH),
    },
  });
  try {
    const key = benchKey(appliance);
    appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
    const posting = (async () => {
      for (let at = 0; at < mails; at += PER_CALL) {
        const recipients = Array.from({ length: Math.min(PER_CALL, mails - at) }, (_, n) => ({
          to: `r${String(at + n)}@far${String((at + n) % lanes)}.test`,
        }));
        await post(appliance, key, { from: 'hi@bench.test', subject: 'x', text: 'x', recipients });
      }
    })();
    let [begun, ended, firstMib, lastMib] = [NaN, NaN, 0, 0];
    const deadline = performance.now() + PATIENCE_MS;
    while (seen.mails < mails) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      const now = performance.now();
      if (now > deadline) throw new Error(`only ${String(seen.mails)} of ${String(mails)} mails came`);
      if (Number.isNaN(begun) && seen.mails >= mails * FROM) begun = now;
      if (Number.isNaN(ended) && seen.mails >= mails * TO) ended = now;
      if (seen.mails < mails / 2) firstMib = Math.max(firstMib, appliance.rss());
      else lastMib = Math.max(lastMib, appliance.rss());
    }
    await posting;
    return { rate: (mails * (TO - FROM) * 1000) / (ended - begun), most: seen.most, firstMib, lastMib };
  } finally {
    await appliance.kill();
    await dns.close();
    await receiver.close();
  }
}

let each = NaN;
for (const connections of counts) {
  const far = await run(connections, roundTripMs);
  if (Number.isNaN(each)) each = far.rate / connections;
  const isLinear = connections <= MOST_LINEAR;
  const peer = isLinear
    ? { name: `${String(connections)} times one of the first`, value: each * connections }
    : { name: 'the same without the distance', value: (await run(connections, 0)).rate };
  tell(
    `${String(connections)} connections: ${far.rate.toFixed(0)} messages/s, ${((far.rate / peer.value) * 100).toFixed(0)} % of ${peer.value.toFixed(0)} (${peer.name}; limit 90 %); ${String(far.most)} open at once; ${far.firstMib.toFixed(0)} MiB, then ${far.lastMib.toFixed(0)} MiB`,
    {
      name: `${String(connections)} connections`,
      value: far.rate,
      unit: 'messages/s',
      atLeast: peer.value * LEAST_SHARE,
      peer,
    },
    {
      name: `memory at ${String(connections)}, second half`,
      value: far.lastMib,
      unit: 'MiB',
      ...(isLinear ? {} : { atMost: far.firstMib * MOST_GROWTH }),
      peer: { name: 'first half', value: far.firstMib },
    },
  );
}
