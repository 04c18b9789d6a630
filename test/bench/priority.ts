/**
 * `npm run bench -- priority`: transactional mail to one lane alone, and while a broadcast of 10,000 goes to the same lane. Exit 1 if
 * its p95 from acceptance to `delivered` moves by more than the time one message of the broadcast takes on a connection, or
 * by 20 ms where that is less.
 */
import { parseArgs } from 'node:util';
import { startDnsServer } from '../support/fakes/fake-dns-server.ts';
import { benchKey, startAppliance } from './appliance.ts';
import { startFarReceiver } from './far-receiver.ts';
import { pacedMails, post, shown } from './latency.ts';

const { values: options } = parseArgs({
  options: {
    broadcast: { type: 'string', default: '10000' },
    mails: { type: 'string', default: '500' },
    rate: { type: 'string', default: '20' },
    /** How far away the receiver is, in ms: beside one that answers at once, the figure would be how busy the processor is. */
    'round-trip': { type: 'string', default: '50' },
  },
});
const PER_CALL = 1000;
const CONNECTIONS = 10;

const receiver = await startFarReceiver(Number(options['round-trip']));
const dns = await startDnsServer({ 'dest.test MX': ['10 mx.dest.test'], 'mx.dest.test A': ['127.0.0.1'] });
const appliance = await startAppliance({
  env: {
    POSTHORN_DELIVERY__DNS_SERVERS: dns.address,
    POSTHORN_DELIVERY__REMOTE_PORT: String(receiver.port),
    POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: String(CONNECTIONS),
    POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(CONNECTIONS),
  },
});
try {
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const run = (name: string, count = Number(options.mails)) =>
    pacedMails({ appliance, key, to: (n) => `${name}${String(n)}@dest.test`, count, perSecond: Number(options.rate) });
  await run('warm', 200);
  const alone = await run('alone');
  console.log(`transactional mail alone: ${shown(alone)}`);
  for (let at = 0; at < Number(options.broadcast); at += PER_CALL) {
    const recipients = Array.from({ length: PER_CALL }, (_, n) => ({ to: `b${String(at + n)}@dest.test` }));
    await post(appliance, key, { from: 'hi@bench.test', subject: 'News', text: 'x', stream: 'broadcast', recipients });
  }
  const [before, started] = [receiver.seen.mails, performance.now()];
  const beside = await run('beside');
  const rate = ((receiver.seen.mails - before) / (performance.now() - started)) * 1000;
  const isOver = receiver.seen.mails - before >= Number(options.broadcast) + Number(options.mails);
  console.log(`beside a broadcast of ${options.broadcast}: ${shown(beside)}; ${rate.toFixed(0)} mails a second in all`);
  if (isOver) console.log('the broadcast ended before: the figure says little');
  const service = (CONNECTIONS / rate) * 1000;
  const moved = beside.p95 - alone.p95;
  const allowed = Math.max(20, service);
  console.log(
    `p95 moved by ${String(moved)} ms (one message on a connection takes ${service.toFixed(0)} ms; limit ${allowed.toFixed(0)} ms)`,
  );
  if (moved > allowed) process.exitCode = 1;
} finally {
  await appliance.kill();
  await dns.close();
  await receiver.close();
}
