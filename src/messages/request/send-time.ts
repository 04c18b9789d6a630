/** Checks the times of a send request (RFC 3339): when a message is sent and when it is given up. */
import { Problem, invalid } from '../../base/problem.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

const SEND_AT_MOST_AHEAD = 30 * DAY;
/** Clocks differ and requests wait: a time this far in the past still means now. */
const SEND_AT_MOST_PAST = 5 * MINUTE;
const EXPIRES_MOST_AFTER = 7 * DAY;

const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** Returns an RFC 3339 time with offset in ms since the epoch, or null for any other text (31 February included). */
export function parseTime(text: string): number | null {
  if (text.length > 40) return null;
  const match = RFC3339.exec(text);
  if (match === null) return null;
  const part = (index: number): number => Number(match[index] ?? 0);
  const [year, month, day, hour, minute, second] = [part(1), part(2), part(3), part(4), part(5), part(6)];
  // RFC 3339 section 5.6: second 60 is a leap second; it counts as the second after.
  if (hour > 23 || minute > 59 || second > 60 || part(9) > 23 || part(10) > 59) return null;
  const start = new Date(0);
  start.setUTCFullYear(year, month - 1, day);
  if (start.getUTCMonth() !== month - 1 || start.getUTCDate() !== day) return null;
  const milliseconds = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3));
  const offset = (match[8] === '-' ? -1 : 1) * (part(9) * 60 + part(10)) * MINUTE;
  return start.getTime() + (hour * 60 + minute) * MINUTE + second * 1000 + milliseconds - offset;
}

/** Returns the time of `send_at`, which may be slightly in the past. */
export function checkSendAt(text: string, now: number, field: string): number {
  const refuse = (why: string): Problem => new Problem('invalid_send_at', `\`${field}\` ${why}.`, { field });
  const at = parseTime(text);
  if (at === null) throw refuse('must be an RFC 3339 time with an offset, such as 2026-01-31T09:30:00Z');
  if (at < now - SEND_AT_MOST_PAST) throw refuse('is in the past');
  if (at > now + SEND_AT_MOST_AHEAD) throw refuse('is more than 30 days ahead');
  return at;
}

/** Refuses an `expires_at` before the message can go out (`start`) or more than 7 days after that. */
export function checkExpiry(at: number, start: number, field: string): void {
  if (at > start && at <= start + EXPIRES_MOST_AFTER) return;
  const why = at <= start ? 'is not after the time of sending' : 'is more than 7 days after the time of sending';
  throw invalid(field, `\`${field}\` ${why}.`);
}

export function checkTime(text: string, field: string): number {
  const at = parseTime(text);
  if (at !== null) return at;
  const why = 'must be an RFC 3339 time with an offset, such as 2026-01-31T09:30:00Z';
  throw invalid(field, `\`${field}\` ${why}.`);
}
