/**
 * Links that show one message to a person without a login, for a time. The link names message, account and end, with a MAC of the current
 * master key, so nothing is stored; a new line in `secret.key` ends all links.
 */
import { createHmac } from 'node:crypto';
import type { Keyring } from '../base/keyring.ts';
import { equalInConstantTime } from '../base/secret.ts';
import { HOUR_MS } from '../base/time.ts';

export const SHARED_HOURS = 48;
const PURPOSE = 'shared messages';

/** The message that a link shows. */
export interface Shared {
  messageId: string;
  accountId: string;
  /** Milliseconds since the epoch. */
  until: number;
}

const macOf = (keyring: Pick<Keyring, 'derive'>, text: string): string =>
  createHmac('sha256', keyring.derive(PURPOSE)).update(text).digest('base64url');

/** Returns the token of a link that is good from `now` on. */
export function shareToken(
  keyring: Pick<Keyring, 'derive'>,
  { messageId, accountId }: Omit<Shared, 'until'>,
  now: number,
): string {
  const text = [messageId, accountId, (now + SHARED_HOURS * HOUR_MS).toString(36)].join('.');
  return `${text}.${macOf(keyring, text)}`;
}

/** Returns what a token shows; null if we did not make it, or it has ended. */
export function readShareToken(keyring: Pick<Keyring, 'derive'>, token: string, now: number): Shared | null {
  const [messageId, accountId, end, mac, ...more] = token.slice(0, 400).split('.');
  if (messageId === undefined || accountId === undefined || end === undefined || mac === undefined || more.length > 0)
    return null;
  if (!equalInConstantTime(macOf(keyring, [messageId, accountId, end].join('.')), mac)) return null;
  const until = Number.parseInt(end, 36);
  return until > now ? { messageId, accountId, until } : null;
}
