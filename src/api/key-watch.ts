/**
 * Ends open answers of a key (event streams, long polls) when it is revoked, changed or expired. The client of a changed key may
 * reconnect at once; the stream then continues from its last event.
 */
import type { Notifier } from '../scheduling/notifier.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { Authenticate, Caller } from '../keys/caller.ts';
import { bearerToken, standing } from './middleware/identify.ts';
import type { Exchange } from './exchange.ts';

export interface KeyWatchDeps {
  clock: Clock;
  authenticate: Authenticate;
  /** Notifies that a key has changed; `authenticate` must know of it by then. */
  keyChanges: Notifier;
}

/** Calls `over` once when the key is no longer what it was. The returned function ends the watch. */
export function watchKey(deps: KeyWatchDeps, { key, header }: Exchange, over: () => void): () => void {
  if (key.kind !== 'known') return () => undefined;
  const { caller } = key;
  const token = bearerToken(header('authorization'));
  let timer: Timer | null = null;

  const look = (): void => {
    void isAsBefore(deps, caller, token).then((isGood) => {
      if (!isGood) over();
    });
  };
  const unlisten = deps.keyChanges.listen(look);
  const endsAt = Math.min(caller.expiresAt ?? Infinity, caller.revokedAt ?? Infinity);
  if (endsAt !== Infinity) waitForEnd(endsAt);

  /** Long timers may end early. */
  function waitForEnd(at: number): void {
    const end = (): void => {
      if (deps.clock.now() >= at) over();
      else waitForEnd(at);
    };
    timer = deps.clock.after(at - deps.clock.now(), end, { background: true });
  }

  return () => {
    unlisten();
    timer?.cancel();
  };
}

/** The store keeps the caller as long as the key is unchanged. A key that cannot be looked up now is not trusted further. */
async function isAsBefore(
  { authenticate, clock }: KeyWatchDeps,
  caller: Caller,
  token: string | null,
): Promise<boolean> {
  if (token === null) return false;
  try {
    const found = await authenticate(token);
    return found.kind === 'found' && found.caller === caller && standing(caller, clock.now()) === 'good';
  } catch {
    return false;
  }
}
