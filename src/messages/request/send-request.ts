/**
 * What a send request may be: from the body of `POST /v1/messages` to drafts of messages, or the first fault.
 *
 *   refuseLongLists   no list longer than its limit
 *   check             the schema: names, types, patterns (send-schema.ts)
 *   partsOf           each member by itself: addresses, headers, attachments, times (send-parts.ts)
 *   draftOf           what needs several: required ones, counts, sizes
 *
 * A bulk send goes the same way once for what its entries share and once for each entry (bulk-request.ts). What only
 * the database knows - domains, streams, suppressions - is the business of accept.ts.
 */
import { check } from '../../base/check.ts';
import { bulkSteps } from './bulk-request.ts';
import { contentOf, draftOf } from './message-draft.ts';
import type { SendDraft, SendRules, SingleDraft } from './send-draft.ts';
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

/** As `checkSend`, but a bulk send waits for `breathe` every millisecond or so: 1,000 entries must not hold up others. */
export async function checkSendGently(
  body: Readonly<Record<string, unknown>>,
  rules: SendRules,
  breathe: () => Promise<void>,
): Promise<SendDraft> {
  if (!isBulk(body)) return checkSingle(body, rules);
  const steps = bulkSteps(body, rules);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await breathe();
  }
}

/** `recipients` tells the forms apart; an optional null is absent here as anywhere. */
const isBulk = (body: Readonly<Record<string, unknown>>): boolean => body['recipients'] != null;

function checkSingle(body: Readonly<Record<string, unknown>>, rules: SendRules): SingleDraft {
  refuseLongLists(body, rules, '');
  const parts = partsOf(check(SingleMessage, withoutNullRecipients(body)), rules, '');
  return { kind: 'single', draft: draftOf(parts, contentOf(parts, ''), rules, '') };
}

function withoutNullRecipients(body: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  if (!Object.hasOwn(body, 'recipients')) return body;
  const { recipients: _null, ...rest } = body;
  return rest;
}
