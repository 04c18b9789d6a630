/** Holds the answer of an operation of the server against its schema: a member that is not declared is a defect, too. */
import assert from 'node:assert/strict';
import { dryRunAnswer } from '../../../src/operator/server-route.ts';
import { serverRouteNamed } from '../../../src/operator/routes.ts';

export function answered<Answer>(operation: string, answer: Answer): Answer {
  const declared = serverRouteNamed(operation);
  if (declared === null) return answer;
  const read: unknown = JSON.parse(JSON.stringify(answer));
  const isDry = typeof read === 'object' && read !== null && 'would' in read;
  const { error, data } = (isDry ? dryRunAnswer : declared.answer).safeParse(read);
  assert.equal(error, undefined, `the answer of ${operation}: ${error?.message ?? ''}`);
  assert.deepEqual(read, data, `the answer of ${operation} has members that are not declared`);
  return answer;
}
