/**
 * Turns the body of `POST /v1/messages` into drafts, or throws the first fault.
 *
 *   refuseLongLists   no list is longer than its limit
 *   check             the schema: names, types, patterns (send-schema.ts)
 *   partsOf           each member by itself: addresses, headers, attachments, times (message-draft.ts)
 *   draftOf           rules over several members: required ones, counts, sizes (message-draft.ts)
 *
 * A bulk send takes these steps once for its shared members and once for each entry. Checks that need the
 * database (domains, streams, suppressions) are in accept.ts.
 */
import { check } from '../../base/check.ts';
import {
  contentOf,
  draftOf,
  mergeParts,
  type SizedContent,
  type SendDraft,
  type SendRules,
  type BulkDraft,
  type BulkEntryDraft,
  type MessageContent,
  type MessageDraft,
  partsOf,
  refuseLongLists,
  type Parts,
} from './message-draft.ts';
import { SingleMessage, BulkEntry, BulkShared } from './send-schema.ts';
import { Problem } from '../../base/problem.ts';
import { addressKey } from '../../mail/address.ts';

export type { BulkDraft, MessageContent, MessageDraft, SendRules } from './message-draft.ts';

/** Checks a send request. Throws a `Problem` for the first fault that concerns all of it. */
export function checkSend(body: Readonly<Record<string, unknown>>, rules: SendRules): SendDraft {
  if (!isBulk(body)) return checkSingle(body, rules);
  const steps = bulkSteps(body, rules);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/** Does the same as `checkSend`, but lets other work run about every millisecond of a bulk send, by calling `nextSlice`. */
export async function checkSendGently(
  body: Readonly<Record<string, unknown>>,
  rules: SendRules,
  nextSlice: () => Promise<void>,
): Promise<SendDraft> {
  if (!isBulk(body)) return checkSingle(body, rules);
  const steps = bulkSteps(body, rules);
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) await nextSlice();
  return step.value;
}

/** Returns whether it is the bulk form, which has `recipients`; null counts as absent. */
const isBulk = (body: Readonly<Record<string, unknown>>): boolean => body['recipients'] != null;

function checkSingle(body: Readonly<Record<string, unknown>>, rules: SendRules): SendDraft {
  refuseLongLists(body, rules, '');
  const { recipients: _null, ...single } = body;
  const parts = partsOf(check(SingleMessage, single), rules, '');
  return { kind: 'single', draft: draftOf(parts, contentOf(parts, ''), rules, '') };
}

/**
 * Checks the bulk form of a send request: shared defaults, and one message for each entry of `recipients`. A fault outside the entries refuses the
 * request. A fault within an entry, such as its address or a misspelt member, belongs to that entry, and `on_error` decides about it: a list with one
 * bad line is still sent.
 */

/** Entries between two turns of the event loop: small ones take 10 us each, refused ones 20 (a Problem records its stack). */
const ENTRIES_A_STEP = 25;

/** Bytes of all different contents of a bulk send, which are stored in one transaction: 1,000 of 128 KB fit. */
const MOST_STORED = 128 * 1024 * 1024;

/** Checks a bulk send and yields every few entries. Throws the fault that refuses all of it. */
function* bulkSteps(body: Readonly<Record<string, unknown>>, rules: SendRules): Generator<void, BulkDraft> {
  refuseSingleMembers(body);
  const wire = readShared(body, rules);
  const parts = partsOf(wire, rules, '');
  const shared: Shared = { parts, contents: new Map() };
  if (parts.body !== null) sharedContent(shared, parts, '');
  const abort = wire.on_error === 'abort';
  const seen = wire.allow_duplicates === true ? null : new Set<string>();

  const entries: BulkEntryDraft[] = [];
  const contents = new Set<MessageContent>();
  let stored = 0;
  for (const [index, entry] of wire.recipients.entries()) {
    if (index % ENTRIES_A_STEP === ENTRIES_A_STEP - 1) yield;
    const result = entryDraft(entry, index, shared, seen, rules);
    if (abort && result.kind === 'rejected') throw result.problem;
    entries.push(result);
    if (result.kind === 'rejected' || contents.has(result.draft.content)) continue;
    contents.add(result.draft.content);
    stored += bytesOf(result.draft.content);
    if (stored > MOST_STORED)
      throw new Problem(
        'message_too_large',
        `The different bodies and their files have more than ${String(MOST_STORED)} bytes in all; send to fewer recipients at once.`,
        { field: 'recipients' },
      );
  }
  const none = noValidRecipients(entries);
  if (none !== null) throw none;
  return { kind: 'bulk', onError: abort ? 'abort' : 'skip', allowDuplicates: seen === null, entries };
}

const bytesOf = ({ html, text, attachments }: MessageContent): number =>
  attachments.reduce((sum, { content }) => sum + content.length, (html?.length ?? 0) + (text?.length ?? 0));

function noValidRecipients(entries: readonly BulkEntryDraft[]): Problem | null {
  if (entries.some((entry) => entry.kind === 'ok')) return null;
  const first = entries.find((entry) => entry.kind === 'rejected');
  const why =
    first === undefined
      ? '`recipients` is empty.'
      : `Every entry was refused, the first because: ${first.problem.message}`;
  return new Problem('no_valid_recipients', why, { field: 'recipients' });
}

/** The shared members, and the contents that they make with `auto_text` on, off and not given. */
interface Shared {
  parts: Parts;
  contents: Map<boolean | null, SizedContent>;
}

/** Returns the content of the shared members. Throws `missing_content` if each entry must bring its own. */
function sharedContent({ contents }: Shared, parts: Parts, prefix: string): SizedContent {
  const made = contents.get(parts.autoText) ?? contentOf(parts, prefix);
  contents.set(parts.autoText, made);
  return made;
}

function refuseSingleMembers(body: Readonly<Record<string, unknown>>): void {
  for (const field of ['to', 'cc', 'bcc']) {
    if (body[field] == null) continue;
    const why = `\`${field}\` and \`recipients\` exclude each other: put \`${field}\` into the entries.`;
    throw new Problem('mutually_exclusive_fields', why, { field });
  }
}

function readShared(body: Readonly<Record<string, unknown>>, rules: SendRules) {
  const { recipients, to: _to, cc: _cc, bcc: _bcc, ...rest } = body;
  const most = rules.limits.bulkRecipients;
  if (Array.isArray(recipients) && recipients.length > most) {
    throw new Problem('too_many_recipients', `\`recipients\` must have at most ${String(most)} entries.`, {
      field: 'recipients',
    });
  }
  refuseLongLists(rest, rules, '');
  return check(BulkShared, { ...rest, recipients });
}

function entryDraft(
  entry: unknown,
  index: number,
  shared: Shared,
  seen: Set<string> | null,
  rules: SendRules,
): BulkEntryDraft {
  const refused = rules.refused?.get(index);
  if (refused !== undefined) return { kind: 'rejected', index, to: sentTo(entry), problem: refused };
  try {
    const { draft, own } = readEntry(entry, `recipients[${String(index)}]`, shared, rules);
    if (seen !== null) refuseDouble(draft, seen, index);
    return { kind: 'ok', index, draft, ...(own.length === 0 ? {} : { own }) };
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    return { kind: 'rejected', index, to: sentTo(entry), problem };
  }
}

function readEntry(
  entry: unknown,
  field: string,
  shared: Shared,
  rules: SendRules,
): { draft: MessageDraft; own: string[] } {
  const prefix = `${field}.`;
  if (typeof entry === 'object' && entry !== null) refuseLongLists(entry as Record<string, unknown>, rules, prefix);
  const own = partsOf(check(BulkEntry, entry, { prefix: field }), rules, prefix);
  const parts = mergeParts(shared.parts, own);
  const isShared = own.body === null && own.attachments === null;
  const content = isShared ? sharedContent(shared, parts, prefix) : contentOf(parts, prefix);
  const overridden = (['from', 'stream'] as const).filter((member) => own[member] !== null);
  return { draft: draftOf(parts, content, rules, prefix), own: overridden };
}

function refuseDouble(draft: MessageDraft, seen: Set<string>, index: number): void {
  const key = addressKey(draft.to.address);
  if (seen.has(key)) {
    const why = `${draft.to.address} is in an earlier entry too. Leave one out, or set \`allow_duplicates\` if that is meant.`;
    throw new Problem('duplicate_recipient', why, { field: `recipients[${String(index)}].to` });
  }
  seen.add(key);
}

/** Characters of an entry's `to` in the answer. */
const LONGEST_TO = 1000;

function sentTo(entry: unknown): string | null {
  if (typeof entry !== 'object' || entry === null) return null;
  const { to } = entry as { to?: unknown };
  return typeof to === 'string' ? to.slice(0, LONGEST_TO) : null;
}
