/** The questions that nodes answer each other. Each is declared with the operation that asks it. */
import { check } from '../base/check.ts';
import { Problem } from '../base/problem.ts';
import type { Question } from './ask-nodes.ts';
import { domainLaneQuestion } from './domain-lanes.ts';
import { engineQuestion } from './engines.ts';
import { holdsQuestion } from './holds.ts';
import { laneQuestion } from './lane-acts.ts';
import { laneFactsQuestion } from './lane-facts.ts';
import { machineQuestion } from './needs/needs-facts.ts';
import { addressesQuestion } from './listings.ts';
import type { OperatorDeps } from './deps.ts';
import { tryNowQuestion } from './queue.ts';
import { resolveQuestion } from './resolve.ts';
import { sourcesQuestion, unblockQuestion } from './sources.ts';
import { linesQuestion, watchQuestion } from './watch.ts';

const questions: readonly Question<OperatorDeps, unknown, unknown>[] = [
  addressesQuestion,
  domainLaneQuestion,
  engineQuestion,
  holdsQuestion,
  laneFactsQuestion,
  laneQuestion,
  linesQuestion,
  machineQuestion,
  resolveQuestion,
  sourcesQuestion,
  tryNowQuestion,
  unblockQuestion,
  watchQuestion,
];

/** Answers a question of another node. Throws a `Problem` if this version has no such question. */
export async function answerQuestion(
  deps: OperatorDeps,
  { name, args }: { name: string; args: unknown },
): Promise<unknown> {
  const question = questions.find((one) => one.name === name);
  if (question === undefined)
    throw new Problem('not_found', `there is no question ${JSON.stringify(name.slice(0, 100))}`);
  return await question.answer(deps, check(question.args, args));
}
