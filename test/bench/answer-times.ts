/**
 * `npm run bench -- answer-times`: how long a client waits, and a mail. POST at 500 requests/s (p50 under 5 ms, p99 under 25 ms); from the
 * POST to MAIL FROM on a lane that was cold and idle (p95 under 20 ms); from acceptance to `delivered` at 200/s (p50 under 10 ms,
 * p99 under 50 ms). Exit 1 if one is missed.
 */
import { parseArgs } from 'node:util';
import { startDnsServer } from '../support/fakes/fake-dns-server.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';
import type { Zones } from '../support/fakes/zones.ts';
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { pacedMails, post } from './latency.ts';
import { httpRequest, paced } from './paced.ts';
import { startSink, until } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    rate: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '10' },
    'delivered-rate': { type: 'string', default: '200' },
    lanes: { type: 'string', default: '200' },
  },
});
const html = '<p>Good day, here is what you ordered.</p>\n'.repeat(90);
const WARM_MAILS = 1000;

const at = (times: readonly number[], share: number): number =>
  times.toSorted((a, b) => a - b)[Math.floor(share * (times.length - 1))] ?? NaN;

/** Holds each share of the times against its limit in ms: `{ 99: 25 }`. */
function hold(what: string, times: readonly number[], limits: Readonly<Record<number, number>>): void {
  const figures = Object.entries(limits).map(([percent, limit]) => ({
    name: `${what}: p${percent}`,
    value: at(times, Number(percent) / 100),
    unit: 'ms',
    atMost: limit,
  }));
  const shown = figures.map(
    ({ value, atMost }, place) =>
      `p${String(Object.keys(limits)[place])} ${value.toFixed(1)} ms (limit ${String(atMost)})`,
  );
  tell(`${what}: ${String(times.length)} times, ${shown.join(', ')}`, ...figures);
}

/** Requests at an even rate, whether or not earlier ones have been answered. */
function posts({ url }: Appliance, key: string, name: string, perSecond: number, total: number): Promise<number[]> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const requests = Array.from({ length: total }, (_, n) => {
    const mail = { from: 'hi@bench.test', to: `${name}${String(n)}@sink.test`, subject: 'Order', html };
    return httpRequest('POST', '/v1/messages', headers, JSON.stringify(mail));
  });
  return paced({ url, perSecond, status: 202, requests });
}

const lanes = Number(options.lanes);
const zones: Zones = {};
for (let n = 0; n < lanes; n++) {
  zones[`cold${String(n)}.test MX`] = [`10 mx.cold${String(n)}.test`];
  zones[`mx.cold${String(n)}.test A`] = ['127.0.0.1'];
}
let heardAt = 0;
const server = await startMailServer({ script: { mail: () => ((heardAt = performance.now()), '250 2.1.0 ok') } });
const sink = await startSink();
const dns = await startDnsServer(zones);
const appliance = await startAppliance({
  env: {
    POSTHORN_DELIVERY__DNS_SERVERS: dns.address,
    POSTHORN_DELIVERY__REMOTE_PORT: String(server.port),
    POSTHORN_DELIVERY__ROUTES: JSON.stringify({ 'sink.test': `127.0.0.1:${String(sink.port)}` }),
  },
});
try {
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const taken = async (count: number): Promise<void> => {
    await until(() => Promise.resolve(sink.count() >= count), `${String(count)} mails at the sink`, 120_000);
  };
  await posts(appliance, key, 'warm', Number(options.rate), WARM_MAILS);
  await taken(WARM_MAILS);

  const total = Number(options.rate) * Number(options.seconds);
  hold(`POST at ${options.rate}/s`, await posts(appliance, key, 'post', Number(options.rate), total), {
    50: 5,
    99: 25,
  });
  await taken(WARM_MAILS + total);

  const cold: number[] = [];
  for (let n = 0; n < lanes; n++) {
    const begun = performance.now();
    heardAt = 0;
    await post(appliance, key, { from: 'hi@bench.test', to: `r@cold${String(n)}.test`, subject: 'x', text: 'x' });
    await until(() => Promise.resolve(heardAt > 0), 'MAIL FROM', 10_000);
    cold.push(heardAt - begun);
  }
  hold('from the POST to MAIL FROM on a lane that nobody has used, its MX looked up', cold, { 95: 20 });

  const perSecond = Number(options['delivered-rate']);
  const paced = await pacedMails({
    appliance,
    key,
    to: (n) => `paced${String(n)}@sink.test`,
    count: perSecond * Number(options.seconds),
    perSecond,
  });
  const what = `accepted to delivered at ${String(perSecond)}/s`;
  tell(
    `${what}: ${String(paced.count)} times, p50 ${String(paced.p50)} ms (limit 10), p99 ${String(paced.p99)} ms (limit 50)`,
    { name: `${what}: p50`, value: paced.p50, unit: 'ms', atMost: 10 },
    { name: `${what}: p99`, value: paced.p99, unit: 'ms', atMost: 50 },
  );
} finally {
  await appliance.kill();
  await dns.close();
  await server.close();
  sink.stop();
}
