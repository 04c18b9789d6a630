/** Times as the API writes them: RFC 3339 in UTC with milliseconds and `Z`. */

export function rfc3339(ms: number): string;
export function rfc3339(ms: number | null): string | null;
export function rfc3339(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
