/** Converts fields of forms into members of API bodies. Pure. */
import { Problem } from '../base/problem.ts';
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

/** Returns the hours of a field in ms, a second at least. Throws Problem, also for an empty field. */
function requireHours(form: URLSearchParams, name: string): number {
  const hours = fieldNumber(form, name) ?? NaN;
  if (!(hours > 0 && hours <= MOST_HOURS))
    throw new Problem('invalid_field', `${name} must be more than 0 and at most 8,784, a year`, { field: name });
  return Math.max(1000, Math.round(hours * HOUR_MS));
}

/** Returns the same, or undefined for an empty field. */
export const fieldHours = (form: URLSearchParams, name: string): number | undefined =>
  fieldText(form, name) === undefined ? undefined : requireHours(form, name);

/** Returns the members that have a value. */
export function definedMembers<T extends object>(members: T): Partial<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** Returns what was typed, for showing the form again, without secrets. */
export function filledIn(form: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...form].filter(([name]) => !name.startsWith('_') && !name.startsWith('password')));
}
