/** Converts fields of forms into members of API bodies, and refuses forms that would undo a change unseen. Pure. */
import { createHash } from 'node:crypto';
import type { Keyring } from '../base/keyring.ts';
import { Problem, invalid } from '../base/problem.ts';
import { HOUR_MS } from '../base/time.ts';

/** Returns the trimmed text of a field, or undefined if it is empty. */
export function fieldText(form: URLSearchParams, name: string): string | undefined {
  const text = form.get(name)?.trim() ?? '';
  return text === '' ? undefined : text;
}

/** Returns the items of a field, separated by line breaks, commas or spaces. */
export function fieldItems(form: URLSearchParams, name: string): string[] {
  return (form.get(name) ?? '').split(/[\s,]+/).filter((item) => item !== '');
}

/** Returns a number, or undefined for an empty field; other text becomes NaN, which the API refuses. */
export function fieldNumber(form: URLSearchParams, name: string): number | undefined {
  const text = fieldText(form, name);
  return text === undefined ? undefined : Number(text);
}

/** A year is the longest time that operations take. */
const MOST_HOURS = 366 * 24;

/** Returns the hours of a field in ms, a second at least, or undefined for an empty field. Throws Problem. */
export function fieldHours(form: URLSearchParams, name: string): number | undefined {
  const hours = fieldNumber(form, name);
  if (hours === undefined) return undefined;
  if (!(hours > 0 && hours <= MOST_HOURS)) throw invalid(name, `${name} must be more than 0 and at most 8,784, a year`);
  return Math.max(1000, Math.round(hours * HOUR_MS));
}

/** Returns the members that have a value. */
export function definedMembers<T extends object>(members: T): Partial<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** Returns what was typed, for showing the form again, without secrets. */
export function filledIn(form: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...form].filter(([name]) => !name.startsWith('_') && !name.startsWith('password')));
}

class StaleForm extends Problem {}

/**
 * Returns what a view hands to its forms as `seen`: a short hash of the values that a form changes. A form shown again for another fault keeps its
 * first hash, because its reader has not been told of a change. The members of the JSON values always come in the same order.
 */
export function seenIn(form: URLSearchParams, fault: Problem | null, values: unknown): string {
  const own = form.get('_seen');
  return own === null || fault === null || fault instanceof StaleForm ? hashOf(values) : own;
}

const hashOf = (values: unknown): string =>
  createHash('sha256').update(JSON.stringify(values)).digest('base64url').slice(0, 22);

/**
 * Throws a Problem if the values are others than the form's page showed: changed by another window, member or program. A page with fields is shown
 * with what was typed and the present hash, so that sending it again saves it. A form without the field, as a script sends it, counts as fresh. A
 * change between this look and the write is not seen.
 */
export function refuseStale(form: URLSearchParams, values: unknown): void {
  if (!form.has('_seen') || form.get('_seen') === hashOf(values)) return;
  throw new StaleForm(
    'invalid_state',
    'This was changed after you opened the page, so nothing was saved, published or sent. Open this page in a new window to see the change. What you entered is kept: saving it again replaces the change.',
  );
}

/** Longer texts are not ours. */
const LONGEST_SEALED = 1000;

/** Returns what we have sealed in a form or an address, or null if it is not that. */
export function openedOf(keyring: Pick<Keyring, 'open'>, purpose: string, sealed: string): Buffer | null {
  if (sealed.length > LONGEST_SEALED) return null;
  try {
    return keyring.open(purpose, sealed);
  } catch {
    return null;
  }
}
