/**
 * Questions to other nodes. A node alone has in memory what it delivers: its lanes, sources and SMTP dialogues. An operation of the operator is
 * performed by the node where it was asked for, which puts questions to the others (node-questions.ts) and joins their answers with its own.
 * A node that does not answer in time is named in the result, and the rest of the result is there.
 */
import type { z } from 'zod';
import type { Problem } from '../base/problem.ts';
import type { NodeRecord, Nodes } from '../storage/nodes.ts';
import type { Owners } from '../storage/owners.ts';

/** A question that every node can answer from its own memory. Arguments and result are JSON. */
export interface Question<Needs, Args, Result> {
  name: string;
  args: z.ZodType<Args>;
  answer(deps: Needs, args: Args): Promise<Result>;
}

/** `gone`: the node has ended. `silent`: it has not answered within the time. `refused`: it cannot answer, such as one of an older version. */
export type NodeAnswer =
  { kind: 'answered'; result: unknown } | { kind: 'gone' } | { kind: 'silent' } | { kind: 'refused'; problem: Problem };

/** Puts a question to another node. */
export type AskNode = (
  node: Pick<NodeRecord, 'epoch' | 'quietMs'>,
  asked: { name: string; args: unknown },
  withinMs: number,
) => Promise<NodeAnswer>;

/** The dependencies of a node that asks. */
export interface AskDeps {
  nodes: Pick<Nodes, 'epoch' | 'list' | 'hasOthers'>;
  owners: Pick<Owners, 'ownerOf'>;
  askNode: AskNode;
}

/** The answers of all nodes, in the order in which `nodes list` has them. */
export interface Answers<Result> {
  from: readonly { node: string; epoch: number; result: Result }[];
  /** Names of the nodes that have not answered. */
  unanswered: readonly string[];
}

/** A node answers within some milliseconds, or some hundred under load. A page that waits for a dying one takes so much longer, once. */
const WITHIN_MS = 1500;

/** Puts a question to every server, this one included. `args` may differ by node. */
export async function askEach<Needs, Args, Result>(
  deps: AskDeps & NoInfer<Needs>,
  question: Question<Needs, Args, Result>,
  args: Args | ((node: NodeRecord) => Args),
): Promise<Answers<Result>> {
  const servers = deps.nodes.list().filter(({ isCommand }) => !isCommand);
  const answers = await Promise.all(
    servers.map(async (node) => {
      const given = args instanceof Function ? args(node) : args;
      const answer = await askOne(deps, node, question, given, WITHIN_MS);
      return { node: node.name, epoch: node.epoch, answer };
    }),
  );
  return {
    from: answers.flatMap(({ answer, ...node }) =>
      answer.kind === 'answered' ? [{ ...node, result: answer.result }] : [],
    ),
    // A node that has ended has nothing in memory that could be missing.
    unanswered: answers.flatMap(({ node, answer }) =>
      answer.kind === 'silent' || answer.kind === 'refused' ? [node] : [],
    ),
  };
}

export type OwnersAnswer<Result> =
  { kind: 'answered'; node: string; result: Result } | { kind: 'unanswered'; node: string };

/** Puts a question to the node that has the key, a recipient's domain; if that one ends meanwhile, to the next that has it. */
export async function askOwner<Needs, Args, Result>(
  deps: AskDeps & NoInfer<Needs>,
  key: string,
  question: Question<Needs, Args, Result>,
  args: Args,
  withinMs: number = WITHIN_MS,
): Promise<OwnersAnswer<Result>> {
  const asked = new Set<number>();
  for (;;) {
    const node = ownerOf(deps, key);
    if (node === null) return { kind: 'unanswered', node: '' };
    const answer = await askOne(deps, node, question, args, withinMs);
    if (answer.kind === 'answered') return { kind: 'answered', node: node.name, result: answer.result };
    asked.add(node.epoch);
    if (answer.kind !== 'gone' || asked.has(ownerOf(deps, key)?.epoch ?? node.epoch))
      return { kind: 'unanswered', node: node.name };
  }
}

/** Returns the node that has the key; this one if the owner is not known. */
export const ownerOf = ({ nodes, owners }: Omit<AskDeps, 'askNode'>, key: string): NodeRecord | null =>
  owners.ownerOf(key) ?? nodes.list().find(({ epoch }) => epoch === nodes.epoch) ?? null;

type Answered<Result> = Exclude<NodeAnswer, { kind: 'answered' }> | { kind: 'answered'; result: Result };

async function askOne<Needs, Args, Result>(
  deps: AskDeps & NoInfer<Needs>,
  node: NodeRecord,
  question: Question<Needs, Args, Result>,
  args: Args,
  withinMs: number,
): Promise<Answered<Result>> {
  if (node.epoch === deps.nodes.epoch) return { kind: 'answered', result: await question.answer(deps, args) };
  const answer = await deps.askNode(node, { name: question.name, args }, withinMs);
  // The other node has the same declaration of the question; one of another version that has none refuses.
  return answer.kind === 'answered' ? { kind: 'answered', result: answer.result as Result } : answer;
}

/** Returns the words for nodes that have not answered: `the node two did not answer`. */
export const unansweredText = (names: readonly string[]): string =>
  names.length === 1
    ? `the node ${names.join()} did not answer`
    : `the nodes ${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''} did not answer`;
