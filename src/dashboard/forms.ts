/** Fields of forms as the API's bodies want them. Pure. */

/** The trimmed text of a field, or undefined where it is empty: an empty field says nothing. */
export function textOf(form: URLSearchParams, name: string): string | undefined {
  const text = form.get(name)?.trim() ?? '';
  return text === '' ? undefined : text;
}

/** What stands on lines of its own or between commas or spaces. */
export function listOf(form: URLSearchParams, name: string): string[] {
  return (form.get(name) ?? '').split(/[\s,]+/).filter((item) => item !== '');
}

/** A whole number, or undefined for an empty field; what is no number goes on as NaN, for the API to refuse. */
export function numberOf(form: URLSearchParams, name: string): number | undefined {
  const text = textOf(form, name);
  return text === undefined ? undefined : Number(text);
}

/** The members that have a value. */
export function given<T extends object>(members: T): Partial<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** What was filled in, for the form to be shown again; secrets stay out. */
export function filledIn(form: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...form].filter(([name]) => !name.startsWith('_') && !name.startsWith('password')));
}
