/** Receivers that take so many mails a minute. */
import type { Behaviour } from '../behaviour.ts';
import { people, type Scenario } from '../play.ts';
import { profiles, type Says } from '../profiles.ts';

const MINUTES = 4;

const perMinute = (name: string, refusal: Says, most: number, minutes = MINUTES): Scenario => ({
  name,
  about: `${String(most)} mails a minute are taken for ${String(minutes)} minutes, mails above that are refused at ${refusal.at}`,
  withPostfix: name === 'rate-60',
  async run(play) {
    const host = await play.host({
      latencyMs: 5,
      rate: { perMinute: most, at: refusal.at, words: play.said(refusal) },
    });
    play.names.domain('paced.test', { 'mx.paced.test': host.address });
    const all = people('paced.test', most * (minutes + 2));
    await play.send(all);
    await play.pass(90);
    await play.ask(all, {
      says: /rate|too much|too many|minute|pace|slow|wait(s|ing) for (its|a) turn|exceed|limit/i,
      never: /can be reached|cannot be reached|greylist|blocked/i,
      inLanes: true,
    });
    await play.pass(minutes * 60 - 90);
    const { attempts, taken } = play.receiver;
    const refusals = attempts.filter(({ end }) => end === 'refused').length;
    play.allowanceUsed = taken.size / (most * minutes);
    play.atLeast('share of the allowance used', play.allowanceUsed, 0.9);
    play.atMost('share of attempts refused', refusals / Math.max(1, attempts.length), 0.25);
  },
});

const TEN_MINUTES = 10;

/** `unlucky`: after 150 s one mail is refused, whatever was sent. */
const window = (
  name: string,
  perMinute: number,
  kind: NonNullable<Behaviour['rate']>['window'],
  unlucky = false,
): Scenario => ({
  name: `window-${String(perMinute)}-${name}${unlucky ? '-unlucky' : ''}`,
  about: `${String(perMinute)} mails a minute are taken for ten minutes, counted in ${name}`,
  async run(play) {
    const words = play.said(profiles.postfix.tooMuchMail);
    const usual: Behaviour = {
      latencyMs: 5,
      rate: { perMinute, at: 'mail', words, ...(kind === undefined ? {} : { window: kind }) },
    };
    const host = await play.host(usual);
    play.names.domain('paced.test', { 'mx.paced.test': host.address });
    const all = people('paced.test', perMinute * (TEN_MINUTES + 2));
    play.watch(all.slice(-100), 20);
    await play.send(all);
    await play.pass(150);
    if (unlucky) {
      host.behaviour = { ...usual, refuse: [{ at: 'mail', words }] };
      const before = play.receiver.attempts.length;
      await play.until(() => play.receiver.attempts.length > before, 60, 'the unlucky refusal');
      host.behaviour = usual;
    }
    await play.pass((TEN_MINUTES - 2.5) * 60);
    play.allowanceUsed = play.receiver.taken.size / (perMinute * TEN_MINUTES);
    play.atLeast('share of the allowance used', play.allowanceUsed, unlucky ? 0.7 : 0.9);
  },
});

const twoDomains: Scenario = {
  name: 'window-two-domains',
  about: 'two domains of one operator, of which one takes 30 mails a minute and the other 90, for ten minutes',
  async run(play) {
    const rates = { 'few.test': 30, 'many.test': 90 };
    const all: string[] = [];
    for (const [domain, perMinute] of Object.entries(rates)) {
      const words = play.said(profiles.postfix.tooMuchMail);
      const host = await play.host({ latencyMs: 5, rate: { perMinute, at: 'mail', words } });
      play.names.domain(domain, { [`mxa-00${domain.slice(0, 3)}.gslb.pphosted.com`]: host.address });
      all.push(...people(domain, perMinute * (TEN_MINUTES + 2)));
    }
    play.watch([...all.slice(200, 260), ...all.slice(-60)], 20);
    await play.send(all);
    await play.pass(TEN_MINUTES * 60);
    for (const [domain, perMinute] of Object.entries(rates)) {
      const taken = play.taken(all.filter((to) => to.endsWith(`@${domain}`)));
      play.atLeast(`share used at ${domain}`, taken / (perMinute * TEN_MINUTES), 0.9);
    }
  },
};

export const rates: readonly Scenario[] = [
  perMinute('rate-60', profiles.postfix.tooMuchMail, 60),
  perMinute('rate-60-421', profiles.appliance.tooManyMessages, 60),
  perMinute('rate-60-451', profiles.appliance.perMinute, 60),
  perMinute('rate-60-sendmail', profiles.sendmail.rate, 60),
  perMinute('rate-30-rspamd', profiles.rspamd.rate, 30),
  window('minutes-from-the-first', 30, undefined),
  window('minutes-from-the-first', 30, undefined, true),
  window('minutes-of-the-clock', 30, 'clock'),
  window('a-sliding-minute', 30, 'sliding'),
  window('a-sliding-minute', 120, 'sliding', true),
  window('a-bucket', 60, { bucket: 60 }),
  window('a-bucket-of-five', 60, { bucket: 5 }),
  twoDomains,
];
