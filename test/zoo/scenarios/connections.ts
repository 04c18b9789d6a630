/** Receivers that take only so many connections, and our own cap. */
import { people, type Play, type Scenario } from '../play.ts';
import { profiles, type Says } from '../profiles.ts';
import type { Host } from '../receiver.ts';

/** True reasons while connections are what is short. */
const SHORT_OF_CONNECTIONS = {
  says: /connection|session|concurrent|too many|wait(s|ing) for (its|a) turn|refused/i,
  never: /can be reached|cannot be reached|greylist|blocked|held/i,
};

const capDrop = (name: string, refusal: Says, restarts = false): Scenario => ({
  name,
  about: `ten connections stand, then the receiver ${restarts ? 'restarts and ' : ''}allows one for 30 s, then five`,
  withPostfix: name.startsWith('cap-drop') && refusal === profiles.postfix.connections,
  async run(play) {
    const host = await play.host({ latencyMs: 40 });
    play.names.domain('big.test', { 'mx.big.test': host.address });
    const all = people('big.test', 6000);
    await play.send(all);
    const ten = await play.until(() => host.standing >= 10, 60, 'ten connections');
    play.atMost('seconds until ten connections stand', ten, 60);
    const words = play.said(refusal);
    host.behaviour = { latencyMs: 40, connections: { most: 1, words } };
    if (restarts) host.restart();
    const fell = play.receiver.now();
    const before = play.receiver.taken.size;
    await play.pass(10);
    await play.ask(all.slice(-2000), SHORT_OF_CONNECTIONS);
    await play.pass(20);
    const refused = play.refused(fell, fell + 30_000);
    play.atMost('refused dials in 30 s', refused.length, 30);
    play.atMost('refused dials in a second, after two seconds', play.worstSecond(play.refused(fell + 2000)), 3);
    play.atLeast('mails taken meanwhile', play.receiver.taken.size - before, 60);
    host.behaviour = { latencyMs: 40, connections: { most: 5, words } };
    const back = await play.until(() => host.standing >= 5, 180, 'five connections');
    play.atMost('seconds until five connections stand', back, 180);
  },
});

const sharedHost = (name: string, second: 'dead' | 'capped'): Scenario => ({
  name,
  about: `two lanes, {a, b} and {a}, where a takes one connection and b ${second === 'dead' ? 'is dead' : 'takes one, too'}`,
  async run(play) {
    const connections = { most: 1, words: play.said(profiles.exim.connections) };
    const a = await play.host({ latencyMs: 20, connections });
    const b = second === 'dead' ? '127.9.9.9' : (await play.host({ latencyMs: 20, connections })).address;
    play.names.domain('both.test', { 'a.farm.test': a.address, 'b.farm.test': b });
    play.names.domain('one.test', { 'a.farm.test': a.address });
    const both = people('both.test', 1000);
    const one = people('one.test', 1000);
    await play.send([...both, ...one]);
    await play.pass(10);
    await play.ask([...both, ...one], SHORT_OF_CONNECTIONS);
    await play.pass(15);
    play.atMost('refused dials in 25 s', play.refused().length, 40);
    play.atLeast('mails of the lane {a, b}', play.taken(both), 20);
    play.atLeast('mails of the lane {a}', play.taken(one), 20);
  },
});

const OWN_CAP_SECONDS = 20;

/** Measures the cost of our own cap of 20 connections a host, with so many lanes that want ten each. */
async function costOf(
  play: Play,
  host: Host,
  lanes: number,
  round: string,
): Promise<{ cores: number; bytes: number; mails: number }> {
  const all: string[] = [];
  for (let n = 0; n < lanes; n++) {
    const domain = `${round}${String(n)}.test`;
    // A second name without an address gives each domain its own lane.
    play.names.domain(domain, { [`mx.${round}.test`]: host.address, [`old.${domain}`]: null });
    all.push(...people(domain, 1500));
  }
  await play.send(all);
  await play.until(() => host.standing >= 18, 60, 'our cap reached');
  await play.pass(3);
  const before = play.sender.usage();
  const taken = play.receiver.taken.size;
  await play.pass(OWN_CAP_SECONDS);
  const after = play.sender.usage();
  return {
    cores: (after.cpuMs - before.cpuMs) / (OWN_CAP_SECONDS * 1000),
    bytes: (after.bytesWritten - before.bytesWritten) / OWN_CAP_SECONDS,
    mails: (play.receiver.taken.size - taken) / OWN_CAP_SECONDS,
  };
}

const ownCap: Scenario = {
  name: 'own-cap',
  about: 'two, then three lanes of ten connections each on one host, of which we open 20 connections at most',
  alone: true,
  async run(play) {
    const two = await costOf(play, await play.host({ latencyMs: 100 }), 2, 'two');
    const three = await costOf(play, await play.host({ latencyMs: 100 }), 3, 'three');
    play.atMost('cores of three lanes by those of two', three.cores / two.cores, three.cores < 0.25 ? Infinity : 1.5);
    play.atMost(
      'bytes a mail of three lanes by those of two',
      three.bytes / three.mails / (two.bytes / two.mails),
      1.5,
    );
    play.atLeast('mails a second with three lanes', three.mails, 40);
    play.atMost('cores with three lanes', three.cores, 0.5);
  },
};

export const connections: readonly Scenario[] = [
  capDrop('cap-drop', profiles.postfix.connections),
  capDrop('cap-drop-restart', profiles.postfix.connections, true),
  capDrop('cap-drop-exim', profiles.exim.connections),
  capDrop('cap-drop-exchange', profiles.outlook.connections),
  sharedHost('shared-host', 'dead'),
  sharedHost('shared-host-both', 'capped'),
  ownCap,
];
