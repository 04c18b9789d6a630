/** Values in aggregate reports of others (DMARC, TLS): nothing is kept that is not one of a few words, a host name or a short text. Pure. */

/** Longer names exist in standards only; a report of hostile ones must not become large. */
const LONGEST_NAME = 100;
const LONGEST_TEXT = 100;
const HOST_NAME = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){0,30}$/;

/** Returns the value, in lower case, if it is one of these; empty if there is none; null for anything else. */
export function oneOf<Value extends string>(values: readonly Value[], text: string | undefined): Value | '' | null {
  if (text === undefined || text === '') return '';
  const lower = text.toLowerCase();
  return values.find((value) => value === lower) ?? null;
}

/**
 * A host name or a label of one, in lower case, without its last dot; of an address what follows its `@`. Empty if there is
 * none, or only `<>`; null for anything else.
 */
export function hostNameOr(text: string | undefined): string | null {
  const name = (text ?? '').slice(0, 400).toLowerCase();
  const host = name.slice(name.lastIndexOf('@') + 1).replace(/[.>]$/, '');
  if (host === '' || host === '<') return '';
  return host.length <= LONGEST_NAME && HOST_NAME.test(host) ? host : null;
}

/** Returns one line of at most a hundred characters. */
export const shortText = (text: string | undefined): string =>
  (text ?? '').slice(0, LONGEST_TEXT).trim().toWellFormed();
