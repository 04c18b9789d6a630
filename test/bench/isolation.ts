/**
 * `npm run bench -- isolation`: 200 healthy domains alone, and beside 50 that are black holes, 50 tar-pits (a byte a second) and 20
 * that answer 451, each with mail of its own. Exit 1 if the healthy domains' p95 from acceptance to `delivered` moves by more
 * than 50 % and more than 20 ms.
 */
import { parseArgs } from 'node:util';
import { systemClock } from '../../src/base/clock.ts';
import { startBlackHole, startTarPit } from '../support/fakes/bad-hosts.ts';
import { startDnsServer } from '../support/fakes/fake-dns-server.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';
import type { Zones } from '../support/fakes/zones.ts';
import { benchKey, startAppliance } from './appliance.ts';
import { pacedMails, post, shown } from './latency.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    mails: { type: 'string', default: '1000' },
    rate: { type: 'string', default: '50' },
    /** Mails waiting for each bad domain. */
    bad: { type: 'string', default: '20' },
  },
});
const HEALTHY = 200;
const SETTLE_MS = 10_000;
const groups = { hole: ['127.0.0.3', 50], tarpit: ['127.0.0.5', 50], later: ['127.0.0.6', 20] } as const;

function zones(): Zones {
  const all: Zones = {};
  const add = (domain: string, ip: string): void => {
    all[`${domain} MX`] = [`10 mx.${domain}`];
    all[`mx.${domain} A`] = [ip];
  };
  for (let n = 0; n < HEALTHY; n++) add(`good${String(n)}.test`, '127.0.0.1');
  for (const [name, [ip, count]] of Object.entries(groups))
    for (let n = 0; n < count; n++) add(`${name}${String(n)}.test`, ip);
  return all;
}

const good = await startMailServer();
const { port } = good;
const hosts = [
  good,
  await startBlackHole(groups.hole[0], port),
  await startTarPit(systemClock, groups.tarpit[0], port),
  await startMailServer({ listen: { host: groups.later[0], port }, script: { rcpt: '451 4.3.0 later' } }),
];
const dns = await startDnsServer(zones());
const appliance = await startAppliance({
  env: { POSTHORN_DELIVERY__DNS_SERVERS: dns.address, POSTHORN_DELIVERY__REMOTE_PORT: String(port) },
});
try {
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const run = (name: string, count = Number(options.mails)) =>
    pacedMails({
      appliance,
      key,
      to: (n) => `${name}${String(n)}@good${String(n % HEALTHY)}.test`,
      count,
      perSecond: Number(options.rate),
    });
  await run('warm', 400);
  const alone = await run('alone');
  console.log(`healthy domains alone: ${shown(alone)}`);
  for (const [name, [, count]] of Object.entries(groups)) {
    for (let n = 0; n < count; n++) {
      const recipients = Array.from({ length: Number(options.bad) }, (_, at) => ({
        to: `r${String(at)}@${name}${String(n)}.test`,
      }));
      await post(appliance, key, { from: 'hi@bench.test', subject: 'x', text: 'x', recipients });
    }
  }
  // Mail that was accepted at once is composed at once: that burst is the machine's, not the hosts'.
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const beside = await run('beside');
  console.log(`beside 50 black holes, 50 tar-pits and 20 that answer 451: ${shown(beside)}`);
  const moved = beside.p95 - alone.p95;
  const allowed = Math.max(20, alone.p95 / 2);
  tell(
    `p95 moved by ${String(moved)} ms (limit ${allowed.toFixed(0)} ms)`,
    { name: 'p95 beside 120 broken domains', value: beside.p95, unit: 'ms', peer: { name: 'alone', value: alone.p95 } },
    { name: 'p95 moved by', value: moved, unit: 'ms', atMost: allowed },
  );
} finally {
  await appliance.kill();
  await dns.close();
  for (const host of hosts) await host.close();
}
