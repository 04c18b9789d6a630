/** Patterns of local parts: `support`, `reply+*` for all that begin so, `*` for all. Pure. */

/** A local part of visible characters, with one `*` at most, at its end. */
export const LOCAL_PATTERN = /^(?:[^\s@*"<>()[\]\\,;:]{1,63}\*?|\*)$/;

export function fitsPattern(pattern: string, local: string): boolean {
  const [wanted, given] = [pattern.toLowerCase(), local.toLowerCase()];
  return wanted.endsWith('*') ? given.startsWith(wanted.slice(0, -1)) : given === wanted;
}

/** The same of a whole address: the pattern is one of local parts with `@` and a domain. */
export function fitsAddress(pattern: string, address: string): boolean {
  const [own, at] = [pattern.lastIndexOf('@'), address.lastIndexOf('@')];
  const isDomain = pattern.slice(own).toLowerCase() === address.slice(at).toLowerCase();
  return isDomain && fitsPattern(pattern.slice(0, own), address.slice(0, at));
}
