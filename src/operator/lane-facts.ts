/** Why mails wait, at any node: what their lanes show at the nodes that deliver them, and what all nodes know of limits, holds and DNS. */
import type { Clock } from '../base/clock.ts';
import { groupBy } from '../base/sets.ts';
import { isOfPool } from '../messages/delivery/hold-mark.ts';
import type { Hold } from '../messages/delivery/holds.ts';
import type { LaneReport } from '../messages/delivery/lane-report.ts';
import {
  waitsOfSoonest,
  type LaneFacts,
  type LaneFactsOf,
  type LaneWait,
  type MailOfLane,
} from '../messages/delivery/why.ts';
import type { Owners } from '../storage/owners.ts';
import { laneFigures, siteOf, type Engine } from './engines.ts';
import { figuresOf, type FiguresDeps } from './node-figures.ts';

/** The dependencies of those who explain mails that any node delivers. */
export interface LaneFactsDeps extends FiguresDeps {
  clock: Pick<Clock, 'now'>;
  mta: Engine['mta'] & { laneFacts(mail: MailOfLane): Promise<LaneFacts> };
  owners: Pick<Owners, 'ownerOf'>;
}

export function createLaneFacts(deps: LaneFactsDeps): LaneFactsOf {
  const { nodes, mta, owners, clock } = deps;

  async function factsOf(mail: MailOfLane, shown: ReadonlyMap<string, readonly LaneReport[]>): Promise<LaneFacts> {
    const owner = owners.ownerOf(mail.domain);
    if (owner === null) return nobody;
    const here = await mta.laneFacts(mail);
    if (owner.epoch === nodes.epoch) return here;
    const lanes = shown.get(`${String(owner.epoch)} ${mta.laneOf(mail.domain)}`);
    const waits = lanes?.map((lane) => lane.waits.filter((wait) => coversMail(wait, mail)));
    return {
      held: here.held ?? heldThere(mail, clock.now()),
      waits: waits === undefined ? here.waits : waitsOfSoonest(waits),
    };
  }

  return async (mails) => {
    const isElsewhere = mails.some(({ domain }) => (owners.ownerOf(domain)?.epoch ?? nodes.epoch) !== nodes.epoch);
    const shown = isElsewhere ? await figuresOf(deps, laneFigures) : [];
    const lanes = groupBy(shown, ({ epoch, value: { lane } }) => `${String(epoch)} ${siteOf(lane.name, lane.source)}`);
    const reports = new Map([...lanes].map(([name, all]) => [name, all.map(({ value }) => value.lane)]));
    return await Promise.all(mails.map((mail) => factsOf(mail, reports)));
  };
}

/** Which sources a pool has, and whether they may send, is known to the node that sends from them. */
const heldThere = ({ mark = null }: MailOfLane, now: number): Hold | null =>
  mark === null || !isOfPool(mark)
    ? null
    : {
        by: mark,
        why: 'no source of its pool could send to its site when it was last tried',
        since: now,
        until: null,
        setBy: 'us',
      };

const coversMail = ({ domain, account }: LaneWait, mail: MailOfLane): boolean =>
  (domain === undefined || domain === mail.domain) && (account === undefined || account === mail.account);

const nobody: LaneFacts = {
  held: null,
  waits: [
    {
      reason: 'queued',
      message: 'No node delivers mail now: none that runs has the role delivery (node.roles).',
      since: null,
      until: null,
      by: 'us',
      stops: false,
    },
  ],
};
