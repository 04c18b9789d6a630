/** Reads the `X-Posthorn-*` fields of a submitted mail: the members of a send request that a mail has no other field for. Pure. */
import { Problem } from '../base/problem.ts';
import type { SubmissionOptions } from '../mail/submitted.ts';
import { MOST_METADATA_KEYS, MOST_TAGS } from '../messages/request/send-limits.ts';
import { tagSchema } from '../messages/request/send-schema.ts';
import { checkSendAt } from '../messages/request/send-time.ts';

export interface SubmissionOptionFields {
  stream: string | null;
  tags: string[];
  metadata: Record<string, string>;
  sendAt: number | null;
  idempotencyKey: string | null;
  trackOpens: boolean;
  trackClicks: boolean;
}

const fieldNames: ReadonlySet<string> = new Set([
  'stream',
  'tag',
  'metadata',
  'send-at',
  'idempotency-key',
  'track-opens',
  'track-clicks',
]);
const MOST_METADATA_BYTES = 10 * 1024;

/** Throws a Problem whose field is the header's name. Tags and metadata may be given several times, tags also with commas. */
export function submissionOptions(options: SubmissionOptions, now: number): SubmissionOptionFields {
  for (const name of options.keys()) if (!fieldNames.has(name)) throw wrong('unknown_field', name, 'is not known');
  return {
    stream: streamOf(single(options, 'stream')),
    tags: tagsOf(options.get('tag') ?? []),
    metadata: metadataOf(options.get('metadata') ?? []),
    sendAt: sendAtOf(single(options, 'send-at'), now),
    idempotencyKey: keyOf(single(options, 'idempotency-key')),
    trackOpens: flagOf(options, 'track-opens'),
    trackClicks: flagOf(options, 'track-clicks'),
  };
}

const header = (name: string): string => `X-Posthorn-${name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase())}`;

const wrong = (
  code: 'unknown_field' | 'invalid_field' | 'invalid_idempotency_key',
  name: string,
  why: string,
): Problem => new Problem(code, `${header(name)} ${why}`, { field: header(name) });

function single(options: SubmissionOptions, name: string): string | null {
  const [value, ...others] = options.get(name) ?? [];
  if (others.length > 0) throw wrong('invalid_field', name, 'occurs twice');
  return value ?? null;
}

function streamOf(text: string | null): string | null {
  if (text === null || /^[a-z][a-z0-9-]{0,31}$/.test(text)) return text;
  throw wrong('invalid_field', 'stream', 'must be the slug of a stream');
}

function tagsOf(values: readonly string[]): string[] {
  const tags = values.flatMap((value) => value.split(',').map((tag) => tag.trim()));
  const isGood = tags.length <= MOST_TAGS && tags.every((tag) => tagSchema.safeParse(tag).success);
  if (!isGood) throw wrong('invalid_field', 'tag', 'may name 10 tags of 1 to 128 characters');
  return [...new Set(tags)];
}

function metadataOf(values: readonly string[]): Record<string, string> {
  const pairs = values.map((value): [string, string] => {
    const [, name, text] = /^([A-Za-z0-9_.-]{1,64})=(.{0,500})$/.exec(value) ?? [];
    if (name === undefined || text === undefined) throw wrong('invalid_field', 'metadata', 'must be name=value');
    return [name, text];
  });
  const bytes = pairs.reduce((sum, [name, text]) => sum + name.length + Buffer.byteLength(text), 0);
  if (pairs.length > MOST_METADATA_KEYS || bytes > MOST_METADATA_BYTES)
    throw wrong('invalid_field', 'metadata', 'may occur 50 times, with 10 KiB in all');
  return Object.fromEntries(pairs);
}

function sendAtOf(text: string | null, now: number): number | null {
  const at = text === null ? null : checkSendAt(text, now, header('send-at'));
  return at !== null && at > now ? at : null;
}

function keyOf(text: string | null): string | null {
  if (text === null || /^[!-~]{1,255}$/.test(text)) return text;
  throw wrong('invalid_idempotency_key', 'idempotency-key', 'must be 1 to 255 visible ASCII characters');
}

/** Returns whether the mail is tracked: only if it asks for that, since all else of it is sent unchanged. */
function flagOf(options: SubmissionOptions, name: string): boolean {
  const value = single(options, name)?.trim() ?? 'false';
  if (/^(?:true|yes|1)$/i.test(value)) return true;
  if (/^(?:false|no|0)$/i.test(value)) return false;
  throw wrong('invalid_field', name, 'must be true or false');
}
