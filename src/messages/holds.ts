/**
 * What holds mail that was accepted: a pause of its account or stream, a sending domain that lost its verification. Held
 * mail keeps its status; it is looked at again every HOLD_MS and given up when its time is over, as any other.
 */
import type { DomainDirectory } from '../domains/domain-directory.ts';
import type { Streams } from '../accounts/stream-store.ts';
import type { AccountPauses } from '../accounts/account-store.ts';

/** How long held mail rests before the next look, in milliseconds: so late it leaves after what held it has ended. */
export const HOLD_MS = 60_000;

/** Why mail of this account, stream and sending domain is held now, or null where it may go. */
export type HoldOf = (mail: { accountId: string; stream: string; fromDomain: string }) => Promise<string | null>;

export interface HoldDeps {
  pauses: AccountPauses;
  streams: Pick<Streams, 'find'>;
  directory: Pick<DomainDirectory, 'find'>;
}

/** Asked before every attempt: all three answers come from memory nearly always. */
export function createHolds({ pauses, streams, directory }: HoldDeps): HoldOf {
  return async ({ accountId, stream, fromDomain }) => {
    if (await pauses.isPaused(accountId)) return 'sending is paused for this account';
    if ((await streams.find(accountId, stream))?.paused === 1) return `the stream ${stream} is paused`;
    const domain = await directory.find(fromDomain);
    return domain === null || domain.status === 'verified' ? null : `the domain ${fromDomain} is not verified any more`;
  };
}
