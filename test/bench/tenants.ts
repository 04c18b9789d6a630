/**
 * `npm run bench -- tenants`: one account's broadcasts go to 20,000 domains whose hosts take the connection and never say a word, beside single
 * mails of its own; another account sends single mails to domains that are new each time. Exit 1 if the p95 of the latter from acceptance
 * to `delivered` is over a second.
 *
 *   --domains N   domains that never answer
 *   --mails N     single mails of the other account
 */
import { parseArgs } from 'node:util';
import { startSilentHost } from '../support/fakes/bad-hosts.ts';
import { startDnsServer } from '../support/fakes/fake-dns-server.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';
import type { Zones } from '../support/fakes/zones.ts';
import { benchKey, startAppliance } from './appliance.ts';
import { pacedMails, post, shown } from './latency.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    domains: { type: 'string', default: '20000' },
    mails: { type: 'string', default: '100' },
  },
});
const silentDomains = Number(options.domains);
const mails = Number(options.mails);
const SILENT_IP = '127.0.0.7';
/** Of the single mails that the first account sends too, for each domain of its broadcast. */
const ITS_SINGLE_MAILS = 0.1;
const PER_CALL = 1000;
const PER_SECOND = 4;
/** By then all connections that the first account may have are waiting. */
const SETTLE_MS = 10_000;
const MOST_P95_MS = 1000;

/** Names that do not exist are listed too, so that the DNS server finds each name at once. */
function zones(): Zones {
  const all: Zones = {};
  const add = (domain: string, ip: string): void => {
    all[`${domain} MX`] = [`10 mx.${domain}`];
    all[`mx.${domain} A`] = [ip];
    all[`mx.${domain} AAAA`] = [];
    all[`_mta-sts.${domain} TXT`] = [];
  };
  for (let n = 0; n < silentDomains; n++) add(`silent${String(n)}.test`, SILENT_IP);
  for (let n = 0; n < 2 * mails; n++) add(`new${String(n)}.test`, '127.0.0.1');
  return all;
}

const good = await startMailServer();
const silent = await startSilentHost(SILENT_IP, good.port);
const dns = await startDnsServer(zones());
const appliance = await startAppliance({
  env: {
    POSTHORN_DELIVERY__DNS_SERVERS: dns.address,
    POSTHORN_DELIVERY__REMOTE_PORT: String(good.port),
    POSTHORN_LOG__LEVEL: 'warn',
  },
});
try {
  const keyOfFlood = benchKey(appliance);
  appliance.cli('accounts', 'add', 'other', '--json');
  const key = benchKey(appliance, 'other');
  appliance.cli('domains', 'add', 'flood.test', '--trust', '--json');
  appliance.cli('domains', 'add', 'bench.test', '--account', 'other', '--trust', '--json');
  const run = (from: number) =>
    pacedMails({ appliance, key, to: (n) => `a@new${String(from + n)}.test`, count: mails, perSecond: PER_SECOND });
  const alone = await run(0);
  console.log(`single mails to new domains, alone: ${shown(alone)}`);
  const flood = (stream: string, count: number): Promise<void>[] =>
    Array.from({ length: Math.ceil(count / PER_CALL) }, (_, call) =>
      post(appliance, keyOfFlood, {
        from: 'news@flood.test',
        subject: 'News',
        text: 'News',
        stream,
        recipients: Array.from({ length: Math.min(PER_CALL, count - call * PER_CALL) }, (_, at) => ({
          to: `${stream}@silent${String(call * PER_CALL + at)}.test`,
        })),
      }),
    );
  await Promise.all([
    ...flood('broadcast', silentDomains),
    ...flood('transactional', silentDomains * ITS_SINGLE_MAILS),
  ]);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const beside = await run(mails);
  console.log(`beside another account's mail to ${String(silentDomains)} domains that never answer: ${shown(beside)}`);
  tell(
    `p95 ${String(beside.p95)} ms (limit ${String(MOST_P95_MS)}), ${String(silent.connections)} connections reached the silent host`,
    {
      name: "p95 beside another account's silent domains",
      value: beside.p95,
      unit: 'ms',
      atMost: MOST_P95_MS,
      peer: { name: 'alone', value: alone.p95 },
    },
  );
} finally {
  await appliance.kill();
  await dns.close();
  await silent.close();
  await good.close();
}
