/** DNS that is slow, silent, broken for a while, or forged. */
import { people, type Play, type Scenario } from '../play.ts';

/** `count` domains, each with its own lane, on one host that accepts everything. */
async function domains(play: Play, name: string, count: number, mailsEach: number): Promise<string[]> {
  const host = await play.host({ latencyMs: 2 });
  return Array.from({ length: count }, (_, n) => `${name}${String(n)}.test`).flatMap((domain) => {
    play.names.domain(domain, { [`mx.${domain}`]: host.address });
    return people(domain, mailsEach);
  });
}

/** Attempts that were spent although no host was dialled: none of these domains' hosts refuses anything. */
async function spentFor(play: Play, to: readonly string[]): Promise<number> {
  if (play.sender.inspect === null) return 0;
  const ours = new Set(to);
  const spent = new Map<string, number>();
  for (const { type, data } of await play.sender.inspect.events('deferred', 'bounced', 'delivered')) {
    const before = spent.get(data.recipient) ?? 0;
    if (ours.has(data.recipient))
      spent.set(
        data.recipient,
        type === 'delivered' ? Math.max(before, (data.delivered?.attempt ?? 1) - 1) : before + 1,
      );
  }
  return [...spent.values()].reduce((sum, one) => sum + one, 0);
}

const cold: Scenario = {
  name: 'dns-cold',
  about: 'two thousand domains that were not looked up before, and DNS that takes a second for each answer',
  alone: true,
  async run(play) {
    const all = await domains(play, 'cold', 2000, 1);
    play.names.latencyMs = 1000;
    await play.send(all);
    await play.pass(4);
    await play.ask(all, {
      says: /DNS|look|resolv|turn|queue/i,
      never: /can be reached|cannot be reached|blocked|too many DNS/i,
    });
    play.atMost(
      'seconds until all are delivered',
      4 + (await play.until(() => play.taken(all) === all.length, 120, 'cold domains')),
      90,
    );
    play.atMost('attempts spent for want of an answer', await spentFor(play, all), 0);
  },
};

const servfail: Scenario = {
  name: 'dns-servfail',
  about: 'a domain with a thousand mails whose DNS answers SERVFAIL for 6 s',
  async run(play) {
    const all = await domains(play, 'broken', 1, 1000);
    play.names.faults = [{ of: /broken/, does: 'SERVFAIL' }];
    await play.send(all);
    await play.pass(4);
    await play.ask(all, { says: /DNS|look|resolv|SERVFAIL|name server/i, never: /greylist|blocked|refused us/i });
    await play.pass(2);
    play.names.faults = [];
    play.atMost(
      'seconds until all are delivered after DNS is back',
      await play.until(() => play.taken(all) === all.length, 120, 'DNS back'),
      90,
    );
    play.atMost('attempts spent for want of an answer', await spentFor(play, all), 0);
  },
};

const HEALTHY = 840;
const EACH = 3;

const silent: Scenario = {
  name: 'dns-silent',
  about: 'three in ten of 1,200 domains have a DNS that never answers; the others are compared with themselves alone',
  alone: true,
  async run(play) {
    play.names.latencyMs = 20;
    const alone = await domains(play, 'alone', HEALTHY, EACH);
    await play.send(alone);
    await play.until(() => play.taken(alone) === alone.length, 120, 'healthy alone');
    const before = play.seconds(alone)[Math.floor(0.99 * alone.length)] ?? Infinity;
    const healthy = await domains(play, 'good', HEALTHY, EACH);
    const quiet = Array.from({ length: 360 }, (_, n) => people(`quiet${String(n)}.test`, EACH)).flat();
    play.names.faults = [{ of: /quiet/, does: 'silent' }];
    // As a list comes: the silent ones stand among the others.
    const mixed = healthy.flatMap((one, at) => (at % 7 < 3 ? [one, quiet[Math.floor(at / 7) * 3 + (at % 7)]] : [one]));
    await play.send(mixed.filter((one) => one !== undefined));
    await play.until(() => play.taken(healthy) === healthy.length, 120, 'healthy beside silent');
    const beside = play.seconds(healthy)[Math.floor(0.99 * healthy.length)] ?? Infinity;
    play.atMost('p99 of healthy beside silent, s', beside, Math.max(5, 3 * before));
    play.atMost('attempts healthy mail lost', await spentFor(play, healthy), 0);
    await play.ask(quiet, { says: /DNS|look|resolv|answer/i, never: /greylist|blocked|mail host of/i });
  },
};

const lying: Scenario = {
  name: 'dns-lies',
  about: 'forged answers come before each true one',
  async run(play) {
    play.names.faults = [{ of: /./, does: 'lies' }];
    const all = await domains(play, 'true', 50, 2);
    await play.send(all);
    play.atMost(
      'seconds until all are delivered',
      await play.until(() => play.taken(all) === all.length, 60, 'true answers'),
      30,
    );
    play.atMost('attempts spent', await spentFor(play, all), 0);
  },
};

export const dns: readonly Scenario[] = [cold, servfail, silent, lying];
