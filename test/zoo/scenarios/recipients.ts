/** A refusal about one recipient may hold up that recipient only. */
import { people, type Play, type Scenario } from '../play.ts';
import { profiles, type Says } from '../profiles.ts';

const hotMailbox = (name: string, refusal: Says): Scenario => ({
  name,
  about: 'sixty mails to one mailbox that takes none, and a thousand for others on the same lane',
  async run(play) {
    const host = await play.host({
      latencyMs: 5,
      refuse: [{ at: refusal.at, to: /^hot/, words: play.said(refusal) }],
    });
    play.names.domain('lane.test', { 'mx.lane.test': host.address });
    const hot = ['hot@lane.test'];
    const healthy = people('lane.test', 1000);
    for (let n = 0; n < 60; n++) await play.send(hot);
    await play.send(healthy);
    const took = await play.until(() => play.taken(healthy) === healthy.length, 60, 'the healthy thousand');
    play.atMost('seconds until all healthy are delivered', took, 30);
    await play.ask(hot, {
      says: /rate|too quickly|too many|more mail than|limit|recipient|mailbox/i,
      never: /can be reached|cannot be reached|rests|greylist/i,
    });
    play.atMost(
      'attempts at the hot mailbox',
      play.receiver.attempts.filter(({ to }) => to.startsWith('hot')).length,
      180,
    );
  },
});

const greylist = (name: string, refusal: Says): Scenario => ({
  name,
  about: 'three hundred recipients greylisted for 20 s, and mail that the same host takes at once',
  withPostfix: name === 'greylist',
  async run(play) {
    const words = play.said(refusal);
    const host = await play.host({ latencyMs: 5, greylist: { ms: 20_000, words, to: /^grey/ } });
    play.names.domain('grey.test', { 'mx.grey.test': host.address });
    const grey = people('grey.test', 300, 'grey');
    const healthy = people('grey.test', 200);
    await play.send(grey);
    await play.trickle(healthy, 10);
    await play.ask(grey, {
      says: /grey|later|again|attempt|first delivery/i,
      never: /can be reached|cannot be reached|rests|blocked/i,
    });
    const took = await play.until(() => play.taken(grey) === grey.length, 200, 'the greylisted');
    play.atMost('seconds until all greylisted are delivered', took + 20, 180);
    play.atMost('seconds of the slowest healthy mail', play.seconds(healthy).at(-1) ?? Infinity, 5);
    play.atMost(
      'attempts for each greylisted',
      play.receiver.attempts.filter(({ to }) => to.startsWith('grey')).length / grey.length,
      4,
    );
  },
});

const suppressed = async (play: Play): Promise<number> => {
  const events = (await play.sender.inspect?.events('bounced')) ?? [];
  return events.filter(({ data }) => data.bounced?.suppression_added === true).length;
};

const unknownUsers = (name: string, refusal: Says): Scenario => ({
  name,
  about: 'a receiver that knows none of three hundred recipients: all bounce and are suppressed',
  async run(play) {
    const host = await play.host({ latencyMs: 5, refuse: [{ at: refusal.at, words: play.said(refusal) }] });
    play.names.domain('gone.test', { 'mx.gone.test': host.address });
    await play.send(people('gone.test', 300));
    const bounced = async () => (await play.sender.bounced()) === 300;
    play.atMost('seconds until all bounced', await play.until(bounced, 60, 'bounces'), 60);
    play.atLeast('suppressed', await suppressed(play), 300);
  },
});

/** A sender whose refused mails come in a row looks for a while like one that every receiver refuses. */
const selective = (name: string, refused: RegExp, seconds: { good: number; bounced: number }): Scenario => ({
  name,
  about: `a receiver that refuses mails for their content, those to ${String(refused)}: these bounce, the others arrive`,
  async run(play) {
    const host = await play.host({
      latencyMs: 5,
      refuse: [{ at: 'message', to: refused, words: play.words('contentRefused') }],
    });
    play.names.domain('picky.test', { 'mx.picky.test': host.address });
    const all = people('picky.test', 300);
    const good = all.filter((one) => !refused.test(one));
    await play.send(all);
    const arrived = () => play.taken(good) === good.length;
    play.atMost(
      'seconds until all others are delivered',
      await play.until(arrived, seconds.good, 'the others'),
      seconds.good,
    );
    const given = async () => (await play.sender.bounced()) === all.length - good.length;
    play.atMost(
      'seconds more until all refused bounced',
      await play.until(given, seconds.bounced, 'bounces'),
      seconds.bounced,
    );
    play.atMost('suppressed', await suppressed(play), 0);
  },
});

export const recipients: readonly Scenario[] = [
  hotMailbox('hot-mailbox', profiles.gmail.mailboxRate),
  hotMailbox('hot-mailbox-short', profiles.appliance.mailboxRate),
  hotMailbox('hot-mailbox-471', profiles.postfix.mailboxRate),
  greylist('greylist', profiles.rspamd.greylisted),
  greylist('greylist-postgrey', profiles.postfix.greylisted),
  greylist('greylist-plain', profiles.exim.laterOnly),
  greylist('greylist-spamd', profiles.spamd.greylisted),
  unknownUsers('unknown-users', profiles.postfix.unknownUser),
  unknownUsers('unknown-users-outlook', profiles.outlook.unknownUser),
  selective('selective', /0@/, { good: 30, bounced: 30 }),
  selective('selective-first', /^u[0-3]?.@/, { good: 180, bounced: 900 }),
];
