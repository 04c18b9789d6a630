/** The facts of lanes about mails, on any node: the node that delivers has it in memory, the others ask that one. */
import { Problem } from '../base/problem.ts';
import type { LaneFacts, LaneFactsOf, MailOfLane } from '../messages/delivery/why.ts';
import type { Nodes } from '../storage/nodes.ts';
import type { Acting } from '../operations/act.ts';
import type { AskLeader } from './node-requests.ts';

/** A page that explains a mail does not wait longer. */
const WITHIN_MS = 500;

const server: Acting = { actor: 'server', ip: null, method: 'SYSTEM', user_agent: null };

export function createLaneFacts({
  nodes,
  mta,
  askLeader,
}: {
  nodes: Nodes;
  mta: { laneFacts(mail: MailOfLane): LaneFacts };
  askLeader: AskLeader;
}): LaneFactsOf {
  return async (mails) => {
    if (nodes.isLeader) return mails.map((mail) => mta.laneFacts(mail));
    if (mails.length === 0) return [];
    try {
      const answer = await askLeader({ name: 'queue.laneFacts', args: { mails }, acting: server }, WITHIN_MS);
      return (answer as { data: LaneFacts[] }).data;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const leader = nodes.list().find(({ isLeader }) => isLeader);
      return mails.map(() => unanswered(leader?.name ?? null));
    }
  };
}

const unanswered = (leader: string | null): LaneFacts => ({
  held: null,
  waits: [
    {
      reason: 'queued',
      message:
        leader === null
          ? 'No node delivers at the moment. The next one takes over within 15 seconds.'
          : `The node ${leader} delivers it and did not answer.`,
      since: null,
      until: null,
      by: 'us',
      stops: false,
    },
  ],
});
