/** Returns whether `If-None-Match` names this tag, by weak comparison (RFC 9110 section 13.1.2). */
export function isCurrent(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(',').some((tag) => tag.trim() === '*' || opaque(tag.trim()) === opaque(etag));
}

const opaque = (tag: string): string => tag.replace(/^W\//, '');
