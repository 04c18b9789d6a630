/** Sessions that break, and servers that are overloaded. */
import { people, type Scenario } from '../play.ts';
import type { Stage } from '../behaviour.ts';
import { profiles, type Says } from '../profiles.ts';

const diesAtDot: Scenario = {
  name: 'die-at-dot',
  about: 'the connection dies between the final dot and the reply, for 30 s',
  withPostfix: true,
  async run(play) {
    const host = await play.host({ latencyMs: 5, breaks: { at: 'message', how: 'drop' } });
    play.names.domain('frail.test', { 'mx.frail.test': host.address });
    const all = people('frail.test', 500);
    await play.send(all);
    await play.pass(15);
    await play.ask(all, {
      says: /connection|broke|lost|closed|reached|uncertain|dot|wait/i,
      never: /greylist|blocked|refused us/i,
    });
    await play.pass(15);
    const uncertain = play.receiver.attempts.filter(({ end }) => end === 'broken_behind_dot').length;
    play.atMost('uncertain attempts in 30 s', uncertain, 10);
    play.atMost('dials in 30 s', play.receiver.dials.length, 30);
    host.behaviour = { latencyMs: 5 };
    await play.until(() => play.taken(all) >= 440, 90, 'recovery');
    play.atLeast('delivered within 90 s of its recovery', play.taken(all), 440);
  },
};

const breaksAt = (name: string, at: Stage, how: 'drop' | 'reset'): Scenario => ({
  name,
  about: `the connection breaks at ${at} for 30 s`,
  async run(play) {
    const host = await play.host({ latencyMs: 5, breaks: { at, how } });
    play.names.domain('frail.test', { 'mx.frail.test': host.address });
    const all = people('frail.test', 500);
    await play.send(all);
    await play.pass(15);
    await play.ask(all, { says: /connection|broke|lost|closed|reached|reset|wait/i, never: /greylist|blocked/i });
    await play.pass(15);
    play.atMost('dials in 30 s', play.receiver.dials.length, 30);
    play.atMost(
      'dials in a second, after two seconds',
      play.worstSecond(play.receiver.dials.filter((dial) => dial.at - (play.receiver.dials[0]?.at ?? 0) > 2000)),
      3,
    );
    host.behaviour = { latencyMs: 5 };
    await play.until(() => play.taken(all) >= 440, 120, 'recovery');
    play.atLeast('delivered within 120 s of its recovery', play.taken(all), 440);
  },
});

export const busy = (name: string, refusal: Says): Scenario => ({
  name,
  about: `a server that is overloaded answers every mail so, at ${refusal.at}`,
  withPostfix: name === 'busy-outlook',
  async run(play) {
    const host = await play.host({ latencyMs: 5, refuse: [{ at: refusal.at, words: play.said(refusal) }] });
    play.names.domain('busy.test', { 'mx.busy.test': host.address });
    const all = people('busy.test', 500);
    await play.send(all);
    await play.pass(30);
    play.atMost('attempts in 30 s', play.receiver.attempts.length, 60);
    await play.ask(all, {
      says: /busy|overload|storage|temporar|rests?|resource|load/i,
      never: /can be reached|cannot be reached|greylist|blocked/i,
      inLanes: true,
    });
    host.behaviour = { latencyMs: 5 };
    // Without a flush the rest of one, two or four minutes ends by itself.
    play.atMost(
      'seconds until all is delivered after it recovered',
      await play.until(() => play.taken(all) === all.length, 240, 'recovery'),
      240,
    );
  },
});

const senderRate = (name: string, refusal: Says): Scenario => ({
  name,
  about: `a large receiver defers everything of our address at ${refusal.at}`,
  async run(play) {
    const host = await play.host({ latencyMs: 5, refuse: [{ at: refusal.at, words: play.said(refusal) }] });
    play.names.domain('large.test', { 'mx.large.test': host.address });
    const all = people('large.test', 300);
    await play.send(all);
    await play.pass(30);
    play.atMost('attempts and dials in 30 s', Math.max(play.receiver.attempts.length, play.receiver.dials.length), 60);
    await play.ask(all, {
      says: /rate|volume|complaint|deferred|unsolicited|mails? a minute|slow/i,
      never: /can be reached|cannot be reached|greylist/i,
      inLanes: true,
    });
  },
});

const tarPit: Scenario = {
  name: 'tar-pit',
  about: 'a receiver that takes eight seconds for each reply, and a healthy one',
  async run(play) {
    const slow = await play.host({ latencyMs: 8000 });
    const quick = await play.host({ latencyMs: 5 });
    play.names.domain('slow.test', { 'mx.slow.test': slow.address });
    play.names.domain('quick.test', { 'mx.quick.test': quick.address });
    await play.send(people('slow.test', 50));
    await play.pass(2);
    const healthy = people('quick.test', 200);
    await play.trickle(healthy, 20);
    await play.until(() => play.taken(healthy) === healthy.length, 20, 'the healthy receiver');
    play.atMost('seconds of the slowest healthy mail', play.seconds(healthy).at(-1) ?? Infinity, 2);
  },
};

export const sessions: readonly Scenario[] = [
  diesAtDot,
  breaksAt('break-at-mail', 'mail', 'drop'),
  breaksAt('reset-at-ehlo', 'ehlo', 'reset'),
  breaksAt('reset-at-rcpt', 'rcpt', 'reset'),
  busy('busy-outlook', profiles.outlook.busy),
  busy('busy-at-mail', profiles.sendmail.overloaded),
  busy('busy-storage', profiles.postfix.noStorage),
  senderRate('rate-gmail', profiles.gmail.unusualRate),
  senderRate('rate-yahoo', profiles.yahoo.deferred),
  senderRate('rate-yahoo-connect', profiles.yahoo.deferredAtGreeting),
  senderRate('rate-outlook', profiles.outlook.rateLimited),
  tarPit,
];
