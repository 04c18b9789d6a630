/**
 * Carries out the request of an unsubscribe page, or of an unsubscribe mail. If the mail is still known it goes the way of everything that
 * happens to a delivery, with an event; if retention has removed it, the address is put on the list all the same.
 */
import type { Recorder } from '../messages/delivery/record.ts';
import type { StoreDeps } from '../storage/database.ts';
import { addSuppression, removeUnsubscription, suppressionsOf } from '../suppressions/suppression-store.ts';
import type { TrackingKey } from './token.ts';
import { readUnsubscribeToken, type Unsubscription } from './unsubscribe-link.ts';

export interface UnsubscribeDeps extends StoreDeps {
  recorder: Pick<Recorder, 'record'>;
}

/** Stops the mail of this stream to this address. A second time changes nothing and writes no event. */
export async function unsubscribe(
  deps: UnsubscribeDeps,
  request: Unsubscription,
  method: 'one_click' | 'page' | 'mailto',
): Promise<void> {
  if (await isUnsubscribed(deps, request)) return;
  const { deliveryId, accountId, email, stream } = request;
  const [recorded] = await deps.recorder.record([{ deliveryId, change: { kind: 'unsubscribed', method, email } }]);
  if (recorded?.state !== null) return;
  await addSuppression(deps, { accountId, email, stream, reason: 'unsubscribe', createdBy: 'recipient' });
}

/** Stops what the token in the subject of an unsubscribe mail names. Returns false, and does nothing, if that is not this delivery. */
export async function unsubscribeByMail(
  deps: UnsubscribeDeps & { keys: readonly TrackingKey[] },
  token: string,
  deliveryId: string,
): Promise<boolean> {
  const request = readUnsubscribeToken(deps.keys, token);
  if (request?.deliveryId !== deliveryId) return false;
  await unsubscribe(deps, request, 'mailto');
  return true;
}

/** Takes it back, if the mail of the link was sent. Other reasons not to mail the address stay. */
export const resubscribe = ({ db }: UnsubscribeDeps, request: Unsubscription): Promise<void> =>
  removeUnsubscription({ db }, request);

/** Returns whether mail of this stream is still withheld from the address, for whatever reason. */
export async function isWithheld(deps: StoreDeps, { accountId, email, stream }: Unsubscription): Promise<boolean> {
  const rows = await suppressionsOf(deps, { accountId, email });
  return rows.some(({ scope }) => scope === 'account' || scope === `stream:${stream}`);
}

export async function isUnsubscribed(deps: StoreDeps, { accountId, email, stream }: Unsubscription): Promise<boolean> {
  const rows = await suppressionsOf(deps, { accountId, email });
  // An entry with an end is not the recipient's own.
  return rows.some(
    ({ reason, scope, expires_at }) => reason === 'unsubscribe' && scope === `stream:${stream}` && expires_at === null,
  );
}
