/** Receivers that refuse or slow us, over minutes and hours: hardly a mail is lost, and `why` is true for each that waits. */
import type { Behaviour, Refusal } from '../behaviour.ts';
import { people, type Scenario } from '../play.ts';
import { profiles } from '../profiles.ts';

const SHUT = '127.0.0.2';
const sources = [
  { name: 'shut', ipv4: SHUT, ehlo: 'one.bench.test' },
  { name: 'open', ipv4: '127.0.0.3', ehlo: 'two.bench.test' },
];
const SIXTY = 60;

const onOneSource = (
  name: string,
  behaviour: (words: typeof profiles) => Behaviour,
  mx = 'mx.half.test',
): Scenario => ({
  name: `source-${name}`,
  about: `sixty mails by two sources, one of which the receiver keeps out: ${name}`,
  delivery: { sources },
  async run(play) {
    const host = await play.host({ latencyMs: 5, ...behaviour(profiles) });
    play.names.domain('half.test', { [mx]: host.address });
    const all = people('half.test', SIXTY);
    play.watch(all);
    await play.send(all);
    await play.until(() => play.taken(all) === SIXTY, 150, 'all of it by the source that is let in');
    play.atLeast('delivered in 150 s', play.taken(all), SIXTY);
    play.atMost('bounced', await play.sender.bounced(), 0);
  },
});

const refuse = (at: Refusal['at'], words: string): Behaviour => ({ refuse: [{ at, words, from: SHUT }] });

const HOUR = 3600;

/** Mail waits through a block of hours, in which the server is restarted thrice, once in the middle of a try. */
const blocked = (name: string, hours: number, refusals: readonly Refusal[]): Scenario => ({
  name: `block-${name}`,
  about: `every mail is refused for good for ${String(hours)} hours, with three restarts; more mail comes every hour`,
  stepMs: 60_000,
  async run(play) {
    const host = await play.host({ refuse: refusals });
    play.names.domain('strict.test', { 'mx.strict.test': host.address });
    const all: string[] = [];
    play.watch(all, 1800);
    for (let hour = 0; hour < hours; hour++) {
      const more = people('strict.test', hour === 0 ? SIXTY : 5, `h${String(hour)}u`);
      all.push(...more);
      await play.send(more);
      await play.pass(HOUR);
      if (hour === 0 || hour === 1 || hour === hours - 2) await play.sender.restart();
    }
    play.atMost('bounced', await play.sender.bounced(), 5);
    play.atMost('attempts', play.receiver.attempts.length, 20 + 2 * hours);
    host.behaviour = {};
    await play.pass(5 * HOUR);
    play.atLeast('delivered', play.taken(all), all.length - 5);
  },
});

const crashes: Scenario = {
  name: 'block-crashes',
  about: 'every mail is refused for good, while the server is killed six times and gets more mail each time',
  async run(play) {
    const words = '550 5.7.26 This mail has been blocked because the sender is unauthenticated.';
    const host = await play.host({ refuse: [{ at: 'message', words }] });
    play.names.domain('strict.test', { 'mx.strict.test': host.address });
    const all: string[] = [];
    play.watch(all, 5);
    for (let round = 0; round < 6; round++) {
      const more = people('strict.test', 20, `r${String(round)}u`);
      all.push(...more);
      await play.send(more);
      await play.pass(10);
      await play.sender.restart();
    }
    await play.pass(150);
    play.atMost('bounced', await play.sender.bounced(), 5);
    play.atMost('attempts', play.receiver.attempts.length, 10);
  },
};

const slow = (seconds: number): Scenario => ({
  name: `slow-${String(seconds)}`,
  about: `four hundred mails for a receiver that answers the final dot after ${String(seconds)} s`,
  async run(play) {
    const host = await play.host({ answerMs: seconds * 1000 });
    play.names.domain('slow.test', { 'mx.slow.test': host.address });
    const all = people('slow.test', 400);
    play.watch(all.slice(0, 100), 5, seconds);
    await play.send(all);
    await play.until(() => play.taken(all) >= 5, 60, 'five mails');
    await play.pass(seconds + 1);
    play.atLeast('connections after five answers', host.standing, 10);
  },
});

const load = (name: string, words: string): Scenario => ({
  name: `load-${name}`,
  about: `four hundred mails for a receiver that says "${words}" for ten minutes`,
  async run(play) {
    const host = await play.host({ refuse: [{ at: 'rcpt', words }] });
    play.names.domain('busy.test', { 'mx.busy.test': host.address });
    const all = people('busy.test', 400);
    play.watch(all, 20);
    await play.send(all);
    await play.pass(600);
    play.atMost('attempts in ten minutes', play.receiver.attempts.length, 40);
    host.behaviour = {};
    await play.pass(1200);
    play.atLeast('delivered within twenty minutes more', play.taken(all), 400);
  },
});

/** Under the names of GMX, whose answer closes for an hour; two domains of the same hosts take their mail meanwhile. */
const gmx: Scenario = {
  name: 'load-gmx',
  stepMs: 5_000,
  about:
    'four hundred mails to gmx.de, which says for an hour that it rejects them due to policy violations; forty to each of two other domains there',
  async run(play) {
    const words =
      '450-Requested mail action not taken: mailbox unavailable\n450-Reject due to policy violations\n450 For explanation visit https://postmaster.gmx.net/en/error-messages?ip={ip}&c=bip';
    const host = await play.host({ refuse: [{ at: 'rcpt', words, to: /@gmx\.de>?$/ }] });
    for (const domain of ['gmx.de', 'gmx.net', 'gmx.at'])
      play.names.domain(domain, { 'mx00.gmx.net': host.address, 'mx01.gmx.net': host.address });
    const all = people('gmx.de', 400);
    const others = [...people('gmx.net', 40), ...people('gmx.at', 40)];
    play.watch(all.slice(0, 40), 20);
    await play.send([...all, ...others]);
    await play.pass(600);
    play.atMost('attempts in ten minutes', play.receiver.attempts.length - play.taken(others), 10);
    play.atLeast('mails to the other domains', play.taken(others), others.length);
    await play.ask(all, { says: /policy violations/, never: /greylist|can be reached/i, inLanes: true });
    await play.pass(3000);
    host.behaviour = {};
    await play.pass(4200);
    play.atLeast('delivered within seventy minutes more', play.taken(all), 400);
    play.atMost('bounced', await play.sender.bounced(), 0);
  },
};

const silent: Scenario = {
  name: 'silent-hosts',
  about: 'two MX hosts that accept connections and stay silent, before one that greets',
  async run(play) {
    const hosts = [
      await play.host({ breaks: { at: 'connect', how: 'hang' } }),
      await play.host({ breaks: { at: 'connect', how: 'hang' } }),
      await play.host(),
    ];
    play.names.domain(
      'mute.test',
      Object.fromEntries(hosts.map(({ address }, at) => [`mx${String(at)}.mute.test`, address])),
    );
    const [first = '', later = ''] = people('mute.test', 2);
    play.watch([first, later], 1);
    await play.send([first]);
    const took = await play.until(() => play.taken([first]) === 1, 60, 'the first mail');
    play.atMost('seconds until the first mail has arrived', took, 15);
    await play.pass(30);
    await play.send([later]);
    play.atMost('seconds for a later one', await play.until(() => play.taken([later]) === 1, 60, 'a later mail'), 2);
  },
};

export const limits: readonly Scenario[] = [
  onOneSource('554', () =>
    refuse(
      'connect',
      '554 IP={ip} - A problem occurred. Ask your postmaster for help or to contact tosa@rx.t-online.de',
    ),
  ),
  onOneSource(
    'operator',
    () =>
      refuse(
        'connect',
        '554 IP={ip} - A problem occurred. Ask your postmaster for help or to contact tosa@rx.t-online.de',
      ),
    'mx00.t-online.de',
  ),
  onOneSource('dropped', () => ({ breaks: { at: 'connect', how: 'reset', from: SHUT } })),
  onOneSource('rate', () => refuse('rcpt', '450 4.7.1 You are sending too many messages per hour')),
  onOneSource('tss04', ({ yahoo }) =>
    refuse(yahoo.deferred.at, '421 4.7.0 [TSS04] Messages from {ip} temporarily deferred due to unexpected volume'),
  ),
  onOneSource('listed', () =>
    refuse('rcpt', '550 5.7.1 Service unavailable; client [{ip}] blocked using zen.spamhaus.org'),
  ),
  blocked('s3140', 10, [
    {
      at: 'mail',
      words:
        "550 5.7.1 Unfortunately, messages from [{ip}] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3140).",
    },
  ]),
  blocked('unauthenticated', 10, [
    { at: 'message', words: '550 5.7.26 This mail has been blocked because the sender is unauthenticated.' },
  ]),
  blocked('weekend', 60, [
    { at: 'rcpt', words: '554 5.7.1 Service unavailable; Client host [{ip}] blocked using zen.spamhaus.org' },
  ]),
  crashes,
  slow(1),
  slow(10),
  load('apple', '451 4.7.1 Service unavailable - try again later'),
  gmx,
  silent,
];
