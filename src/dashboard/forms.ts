/** Converts fields of forms into members of API bodies. Pure. */

/** Returns the trimmed text of a field, or undefined where it is empty. */
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

/** Returns the members that have a value. */
export function definedMembers<T extends object>(members: T): Partial<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** Returns what was typed, for showing the form again, without secrets. */
export function filledIn(form: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...form].filter(([name]) => !name.startsWith('_') && !name.startsWith('password')));
}
