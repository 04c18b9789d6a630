/** The facts of lanes about mails, on any node: each of the nodes that deliver them is asked once. */
import { z } from 'zod';
import type { LaneFacts, LaneFactsOf, MailOfLane } from '../messages/delivery/why.ts';
import type { NodeRecord } from '../storage/nodes.ts';
import { ownerOf, type AskDeps, type Question } from './ask-nodes.ts';

interface Engine {
  mta: { laneFacts(mail: MailOfLane): Promise<LaneFacts> };
}

/** A page that explains a mail does not wait longer. */
const WITHIN_MS = 500;
/** Mails in one question. */
const MOST_MAILS = 1000;

/** Asks why mails wait, as far as their lanes know it. */
export const laneFactsQuestion: Question<Engine, { mails: readonly MailOfLane[] }, readonly LaneFacts[]> = {
  name: 'laneFacts',
  args: z.strictObject({
    mails: z
      .array(
        z.strictObject({
          domain: z.string().max(300),
          account: z.string().max(100),
          stream: z.string().max(100).nullable(),
          mark: z.string().max(300).nullable(),
        }),
      )
      .max(MOST_MAILS),
  }),
  answer: ({ mta }, { mails }) => Promise.all(mails.map((mail) => mta.laneFacts(mail))),
};

/** Mails of one node, with their places in the list. */
interface NodeBatch {
  node: NodeRecord;
  mails: (readonly [at: number, mail: MailOfLane])[];
}

export function createLaneFacts(deps: AskDeps & Engine): LaneFactsOf {
  const { nodes, mta, askNode } = deps;

  async function factsAt({ node, mails }: NodeBatch): Promise<readonly LaneFacts[]> {
    if (node.epoch === nodes.epoch && !node.isDelivering) return mails.map(() => nobody);
    if (node.epoch === nodes.epoch) return await Promise.all(mails.map(([, mail]) => mta.laneFacts(mail)));
    const asked = { name: laneFactsQuestion.name, args: { mails: mails.map(([, mail]) => plain(mail)) } };
    const answer = await askNode(node, asked, WITHIN_MS);
    // The other node has the same declaration of the question.
    if (answer.kind === 'answered') return answer.result as readonly LaneFacts[];
    return mails.map(() => (answer.kind === 'gone' ? ended(node.name) : unanswered(node.name)));
  }

  return async (mails) => {
    const found: LaneFacts[] = [];
    await Promise.all(
      batchesOf(deps, mails).map(async (batch) => {
        const facts = await factsAt(batch);
        for (const [place, [at]] of batch.mails.entries()) found[at] = facts[place] ?? unanswered(batch.node.name);
      }),
    );
    return found;
  };
}

const plain = ({ domain, account, stream = null, mark = null }: MailOfLane): MailOfLane => ({
  domain,
  account,
  stream,
  mark,
});

/** Divides the mails by the nodes that have them, and into questions of a limited length. */
function batchesOf(deps: Omit<AskDeps, 'askNode'>, mails: readonly MailOfLane[]): NodeBatch[] {
  const open = new Map<number, NodeBatch>();
  const batches: NodeBatch[] = [];
  for (const [at, mail] of mails.entries()) {
    const node = ownerOf(deps, mail.domain);
    if (node === null) throw new Error('a running server is among its nodes');
    let batch = open.get(node.epoch);
    if (batch === undefined || batch.mails.length >= MOST_MAILS) {
      batch = { node, mails: [] };
      open.set(node.epoch, batch);
      batches.push(batch);
    }
    batch.mails.push([at, mail]);
  }
  return batches;
}

const unanswered = (node: string): LaneFacts => because(`The node ${node} delivers it and did not answer.`);
const ended = (node: string): LaneFacts =>
  because(`The node ${node}, which delivered it, has ended. Another one takes over within 15 seconds.`);

function because(message: string): LaneFacts {
  const wait = { reason: 'queued', message, since: null, until: null, by: 'us', stops: false } as const;
  return { held: null, waits: [wait], unknown: message };
}

const nobody = because('No node delivers mail now: none that runs has the role delivery (node.roles).');
