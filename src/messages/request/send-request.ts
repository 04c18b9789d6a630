/**
 * Turns the body of `POST /v1/messages` into drafts, or throws the first fault.
 *
 *   refuseLongLists   no list is longer than its limit
 *   check             the schema: names, types, patterns (send-schema.ts)
 *   partsOf           each member by itself: addresses, headers, attachments, times (send-parts.ts)
 *   draftOf           rules over several members: required ones, counts, sizes (message-draft.ts)
 *
 * A bulk send takes these steps once for its shared members and once for each entry (bulk-request.ts). Checks that need the
 * database (domains, streams, suppressions) are in accept.ts.
 */
import { check } from '../../base/check.ts';
import { bulkSteps } from './bulk-request.ts';
import { contentOf, draftOf } from './message-draft.ts';
import type { SendDraft, SendRules } from './send-draft.ts';
import { partsOf, refuseLongLists } from './send-parts.ts';
import { SingleMessage } from './send-schema.ts';

export type { BulkDraft, MessageContent, MessageDraft, SendRules } from './send-draft.ts';

/** Checks a send request. Throws a `Problem` for the first fault that concerns all of it. */
export function checkSend(body: Readonly<Record<string, unknown>>, rules: SendRules): SendDraft {
  if (!isBulk(body)) return checkSingle(body, rules);
  const steps = bulkSteps(body, rules);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Does the same as `checkSend`, but lets other work run about every millisecond of a bulk send, by calling `nextSlice`.
 */
export async function checkSendGently(
  body: Readonly<Record<string, unknown>>,
  rules: SendRules,
  nextSlice: () => Promise<void>,
): Promise<SendDraft> {
  if (!isBulk(body)) return checkSingle(body, rules);
  const steps = bulkSteps(body, rules);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await nextSlice();
  }
}

/** Returns whether it is the bulk form, which has `recipients`; null counts as absent. */
const isBulk = (body: Readonly<Record<string, unknown>>): boolean => body['recipients'] != null;

function checkSingle(body: Readonly<Record<string, unknown>>, rules: SendRules): SendDraft {
  refuseLongLists(body, rules, '');
  const { recipients: _null, ...single } = body;
  const parts = partsOf(check(SingleMessage, single), rules, '');
  return { kind: 'single', draft: draftOf(parts, contentOf(parts, ''), rules, '') };
}
