/** Receivers that take so many mails a minute. */
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
    play.atLeast('share of the allowance used', play.allowanceUsed, 0.6);
    play.atMost('share of attempts refused', refusals / Math.max(1, attempts.length), 0.25);
  },
});

export const rates: readonly Scenario[] = [
  perMinute('rate-60', profiles.postfix.tooMuchMail, 60),
  perMinute('rate-60-421', profiles.appliance.tooManyMessages, 60),
  perMinute('rate-60-451', profiles.appliance.perMinute, 60),
  perMinute('rate-60-sendmail', profiles.sendmail.rate, 60),
  perMinute('rate-30-rspamd', profiles.rspamd.rate, 30),
];
