/** The receiver refuses us, not our recipients: mail waits, nothing is suppressed, and it goes on when the receiver relents. */
import { people, type Scenario } from '../play.ts';
import { profiles, type Says } from '../profiles.ts';

const MAILS = 300;

export const refusesUs = (name: string, refusal: Says, says: RegExp): Scenario => ({
  name,
  about: `every mail is refused for good at ${refusal.at} because the receiver does not want us (${refusal.meaning}); then it relents`,
  withPostfix: name === 'banned-address',
  async run(play) {
    const { at } = refusal;
    const words = play.said(refusal);
    const host = await play.host({ latencyMs: 5, refuse: [{ at, words }] });
    play.names.domain('strict.test', { 'mx.strict.test': host.address });
    const all = people('strict.test', MAILS);
    await play.send(all);
    await play.pass(30);
    const events = (await play.sender.inspect?.events('bounced')) ?? [];
    const bounced = await play.sender.bounced();
    play.atMost('bounced', bounced, 30);
    play.atMost('suppressed', events.filter(({ data }) => data.bounced?.suppression_added === true).length, 0);
    play.atMost('attempts in 30 s', play.receiver.attempts.length, 40);
    const gone = new Set(events.map(({ data }) => data.recipient));
    await play.ask(
      all.filter((one) => !gone.has(one)),
      { says, never: /can be reached|cannot be reached|greylist|user unknown/i, inLanes: true },
    );
    host.behaviour = { latencyMs: 5 };
    await play.sender.flush('strict.test');
    const rest = MAILS - bounced;
    const took = await play.until(() => play.taken(all) >= rest, 90, 'the rest after a flush');
    play.atMost('seconds from flush until the rest is delivered', took, 90);
    play.atLeast('delivered', play.taken(all), MAILS - 30);
  },
});

const US = /refus|block|banned|reject|denied|accept|our address|sender|reputation/i;

const atGreeting: Scenario = {
  name: 'banned-greeting',
  about: 'a receiver that turns our address away with 554 at the greeting, by a public block list; then it relents',
  async run(play) {
    const refusal = profiles.postfix.blockedAtGreeting;
    const host = await play.host({ refuse: [{ at: refusal.at, words: play.said(refusal) }] });
    play.names.domain('strict.test', { 'mx.strict.test': host.address });
    const all = people('strict.test', MAILS);
    await play.send(all);
    await play.pass(30);
    play.atMost('dials in 30 s', play.receiver.dials.length, 30);
    play.atMost('bounced', await play.sender.bounced(), 0);
    await play.ask(all, { says: US, never: /(can|cannot) be reached|greylist|user unknown/i, inLanes: true });
    host.behaviour = {};
    await play.sender.flush('strict.test');
    play.atMost(
      'seconds from flush until all is delivered',
      await play.until(() => play.taken(all) === MAILS, 90, 'after a flush'),
      90,
    );
  },
};

export const opinion: readonly Scenario[] = [
  refusesUs('banned-address', profiles.outlook.banned, US),
  refusesUs('banned-s3150', profiles.outlook.blockList, US),
  refusesUs('banned-proofpoint', profiles.proofpoint.blocked, US),
  refusesUs('unauthenticated', profiles.gmail.unauthenticated, /authenticat|SPF|DKIM/i),
  refusesUs('unauthenticated-outlook', profiles.outlook.unauthenticated, /authenticat|SPF|DKIM/i),
  refusesUs('likely-spam', profiles.gmail.likelySpam, /spam|unsolicited|content|reputation/i),
  refusesUs('likely-spam-short', profiles.rspamd.spam, /spam|unsolicited|content|reputation/i),
  refusesUs('relay-denied', profiles.postfix.relayDenied, /relay|rcpthosts/i),
  refusesUs('relay-denied-exim', profiles.exim.relayDenied, /relay|rcpthosts/i),
  refusesUs('must-starttls', profiles.postfix.mustStartTls, /TLS/i),
  atGreeting,
];
