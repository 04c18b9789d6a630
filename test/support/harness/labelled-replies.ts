/** Replies that others labelled, with their reasons brought to three kinds: the mailbox or domain is not there, a matter of ours, or anything else. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type Refusal, readRefusal } from '../../../src/messages/delivery/classify.ts';
import { corpus } from './corpora.ts';

export interface LabelledReply {
  line: string;
  /** As the source says it. */
  label: string;
  kind: 'hard' | 'block' | 'other';
  refusal: Refusal;
}

const hard = ['userunknown', 'hostunknown', 'hasmoved', 'notaccept', 'suspend'];
const block = [
  'authfailure',
  'badreputation',
  'blocked',
  'contenterror',
  'failedstarttls',
  'norelaying',
  'notcompliantrfc',
  'policyviolation',
  'rejected',
  'requireptr',
  'securityerror',
  'spamdetected',
  'speeding',
  'toomanyconn',
  'virusdetected',
];
/** `filtered` labels unknown users and filters alike, `onhold` replies that were not understood. */
const undecided = ['filtered', 'onhold', 'undefined', 'feedback', 'vacation', 'delivered'];

/** Half of all lines, by a hash. */
export const isSeen = (line: string): boolean => (createHash('sha256').update(line).digest()[0] ?? 0) % 2 === 0;

/** All labelled lines once, or null if the corpora are not there. */
export function labelledReplies(): LabelledReply[] | null {
  const replies = corpus('smtp-replies/sisimai');
  const bounces = corpus('bounces');
  if (replies === null || bounces === null) return null;
  const read = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));
  const lines = read(path.join(replies, 'diagnostic-lines-labelled.json')) as { line: string; reason: string }[];
  const reasons = read(path.join(replies, 'reason-lines.json')) as Record<string, string[]>;
  const hosts = read(path.join(replies, 'rhost-lines.json')) as Record<string, { smtp_lines: typeof lines }>;
  const found = [
    ...lines,
    ...Object.entries(reasons).flatMap(([reason, list]) => list.map((line) => ({ line, reason }))),
    ...Object.values(hosts).flatMap((host) => host.smtp_lines),
  ].map(({ line, reason }) => labelled(line, reason, readRefusal(line)));
  const all = [...found, ...diagnostics(read(path.join(bounces, 'labels.json')))];
  return [...new Map(all.map((row) => [row.line, row])).values()].filter(({ label }) => !undecided.includes(label));
}

interface Labels {
  expected?: { reason: string; diagnostic_derived?: string | null }[] | null;
  derived?: { dsn?: { status?: string; diagnostic?: string }[] };
}

/** The Diagnostic-Code fields of bounce mails, with their Status. */
function diagnostics(labels: unknown): LabelledReply[] {
  return Object.values(labels as Record<string, Labels>).flatMap(({ expected, derived }) =>
    (expected ?? []).flatMap(({ reason, diagnostic_derived: text }) => {
      if (text == null) return [];
      const enhanced = derived?.dsn?.find(({ diagnostic }) => diagnostic === text)?.status ?? null;
      return [labelled(text, reason, { phase: 'report', code: null, enhanced, text })];
    }),
  );
}

function labelled(line: string, label: string, refusal: Refusal): LabelledReply {
  const kind = hard.includes(label) ? 'hard' : block.includes(label) ? 'block' : 'other';
  return { line, label, kind, refusal };
}
