/** Checks the headers of a request: a caller may set every well-formed one except those that the service sets (RFC 5322 section 3.6). */
import { Problem } from '../../base/problem.ts';

/** Headers of one message, after merging. */
export const MOST_HEADERS = 50;
/** Characters of References, which names all mails of a thread; any other header has at most 995. */
export const LONGEST_REFERENCES = 16 * 1024;
export const HEADER_LENGTH =
  'must be at most 995 characters (`References`: 16,384) without line breaks and control characters';

/** Headers that the service sets, or that have a member of their own; in lower case. */
const refusedNames: ReadonlySet<string> = new Set([
  'from',
  'to',
  'cc',
  'bcc',
  'subject',
  'sender',
  'reply-to',
  'date',
  'message-id',
  'mime-version',
  'dkim-signature',
  'received',
  'return-path',
  'authentication-results',
  'feedback-id',
  'x-message-id',
]);

const refusedPrefixes = ['content-', 'arc-', 'resent-', 'x-posthorn-'] as const;

/** The member that sets such a header. */
const memberFor: ReadonlyMap<string, string> = new Map([
  ['from', 'from'],
  ['to', 'to'],
  ['cc', 'cc'],
  ['bcc', 'bcc'],
  ['subject', 'subject'],
  ['reply-to', 'reply_to'],
]);

export type HeaderPair = readonly [name: string, value: string];

/** Returns the headers as pairs, in order. `at` returns the field name of one. Throws the first fault. */
export function checkHeaders(wire: Readonly<Record<string, string>>, at: (name: string) => string): HeaderPair[] {
  const seen = new Set<string>();
  return Object.entries(wire).map(([name, value]) => {
    const lower = name.toLowerCase();
    if (isRefused(lower)) throw notAllowed(lower, at(name));
    if (seen.has(lower)) {
      throw new Problem(
        'invalid_header',
        `\`${at(name)}\` is given twice: upper and lower case make no difference. Leave one out.`,
        {
          field: at(name),
        },
      );
    }
    if (lower !== 'references' && value.length > 995 && Array.from(value).length > 995)
      throw new Problem('invalid_header', `\`${at(name)}\` ${HEADER_LENGTH}.`, { field: at(name) });
    seen.add(lower);
    return [name, value.toWellFormed()];
  });
}

/** Merges an entry's headers over the shared ones; names are compared without case, as mail readers do. */
export function mergeHeaders(shared: readonly HeaderPair[], own: readonly HeaderPair[]): readonly HeaderPair[] {
  if (own.length === 0) return shared;
  const merged = new Map<string, HeaderPair>();
  for (const pair of [...shared, ...own]) merged.set(pair[0].toLowerCase(), pair);
  return [...merged.values()];
}

const isRefused = (lower: string): boolean =>
  refusedNames.has(lower) || refusedPrefixes.some((prefix) => lower.startsWith(prefix));

function notAllowed(lower: string, field: string): Problem {
  const member = memberFor.get(lower);
  const cure = member === undefined ? 'is set by the service' : `has a member of its own: use \`${member}\``;
  return new Problem('header_not_allowed', `\`${field}\` ${cure}.`, { field });
}
