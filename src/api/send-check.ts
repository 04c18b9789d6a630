/** The check of a send request as plain data: a thread hands over neither Problems nor Buffers. Contents that entries share stay shared. */
import { Problem, type ProblemCode } from '../base/problem.ts';
import { asBuffer, ownMemory } from '../base/bytes.ts';
import {
  checkSend,
  type BulkDraft,
  type MessageContent,
  type MessageDraft,
  type SendRules,
} from '../messages/request/send-request.ts';
import { isTemplated, withoutEmptyTexts } from '../messages/request/template-members.ts';
import type { BulkEntryDraft, SendDraft } from '../messages/request/message-draft.ts';
import type { JsonObject } from './json.ts';

interface PlainProblem {
  code: ProblemCode;
  message: string;
  field: string | null;
}

type PlainEntry =
  | Extract<BulkEntryDraft, { kind: 'ok' }>
  | (Omit<Extract<BulkEntryDraft, { kind: 'rejected' }>, 'problem'> & { problem: PlainProblem });

export type CheckedSend =
  | { kind: 'single'; draft: MessageDraft }
  | (Omit<BulkDraft, 'entries'> & { entries: PlainEntry[] })
  /** A complete mail; the draft has its recipients and the options of the send. */
  | { kind: 'mail'; bytes: Uint8Array; draft: MessageDraft }
  | { kind: 'refused'; problem: PlainProblem }
  /** The request has a template: it must be rendered first, which needs the database. */
  | { kind: 'templated'; body: JsonObject; files: ReadonlyMap<string, Uint8Array | string> };

/** Checks a body; its faults are part of the result. */
export function checkApart(given: JsonObject, rules: SendRules): Exclude<CheckedSend, { kind: 'mail' }> {
  const body = withoutEmptyTexts(given);
  if (isTemplated(body)) return { kind: 'templated', body, files: rules.files ?? new Map<string, Buffer>() };
  try {
    const checked = checkSend(body, rules);
    return checked.kind === 'single' ? checked : { ...checked, entries: checked.entries.map(plainEntry) };
  } catch (error) {
    if (error instanceof Problem) return { kind: 'refused', problem: plain(error) };
    throw error;
  }
}

/** Checks a complete mail, whose octets are in `message` in base64, and the members that come with it. */
export function checkMail({ message = '', ...members }: JsonObject, rules: SendRules): CheckedSend {
  const bytes = Buffer.from(typeof message === 'string' ? message : '', 'base64');
  if (bytes.length > rules.limits.messageBytes)
    return refusedMail('message_too_large', `The mail is larger than ${String(rules.limits.messageBytes)} bytes.`);
  if (bytes.length === 0) return refusedMail('missing_field', '`message` is missing.');
  // The mail itself says what these are.
  const checked = checkApart({ ...members, from: 'a@mail.invalid', subject: '-', text: '-' }, rules);
  return checked.kind === 'single' ? { kind: 'mail', bytes, draft: checked.draft } : checked;
}

const refusedMail = (code: ProblemCode, message: string): CheckedSend => ({
  kind: 'refused',
  problem: { code, message, field: 'message' },
});

const plain = ({ code, message, field }: Problem): PlainProblem => ({ code, message, field });

const plainEntry = (entry: BulkEntryDraft): PlainEntry =>
  entry.kind === 'ok' ? entry : { ...entry, problem: plain(entry.problem) };

/** Returns the memory of its files, to transfer it to another thread. */
export const memoryOf = (checked: CheckedSend): ArrayBuffer[] => ownMemory(filesOf(checked));

function filesOf(checked: CheckedSend): readonly Uint8Array[] {
  if (checked.kind === 'refused') return [];
  if (checked.kind === 'templated') return [...checked.files.values()].filter((file) => typeof file !== 'string');
  if (checked.kind === 'mail') return [checked.bytes];
  const drafts =
    checked.kind === 'single'
      ? [checked.draft]
      : checked.entries.flatMap((entry) => (entry.kind === 'ok' ? [entry.draft] : []));
  return drafts.flatMap(({ content }) => content.attachments.map((attachment) => attachment.content));
}

/** Returns the files of a check on the receiving side, where they are plain arrays of bytes. */
export const filesFrom = (checked: CheckedSend | null): Map<string, Buffer | string> =>
  new Map(
    checked?.kind === 'templated'
      ? [...checked.files].map(([name, file]) => [name, typeof file === 'string' ? file : asBuffer(file)])
      : [],
  );

/** Returns the draft of a check on the receiving side. Throws the Problem that refuses the request. */
export function draftFrom(checked: Exclude<CheckedSend, { kind: 'templated' | 'mail' }>): SendDraft {
  if (checked.kind === 'refused') throw problem(checked.problem);
  const contents = new Map<MessageContent, MessageContent>();
  const whole = (draft: MessageDraft): MessageDraft => {
    const content = contents.get(draft.content) ?? withBuffers(draft.content);
    contents.set(draft.content, content);
    return { ...draft, content };
  };
  if (checked.kind === 'single') return { kind: 'single', draft: whole(checked.draft) };
  return {
    ...checked,
    entries: checked.entries.map((entry) =>
      entry.kind === 'ok' ? { ...entry, draft: whole(entry.draft) } : { ...entry, problem: problem(entry.problem) },
    ),
  };
}

const problem = ({ code, message, field }: PlainProblem): Problem => new Problem(code, message, { field });

/** A thread hands over a plain byte array, whatever the type says. */
const withBuffers = (content: MessageContent): MessageContent => ({
  ...content,
  attachments: content.attachments.map((attachment) => ({ ...attachment, content: asBuffer(attachment.content) })),
});
