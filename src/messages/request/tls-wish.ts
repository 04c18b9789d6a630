/** What a message asks of TLS on its way (RFC 8689): REQUIRETLS by the envelope, or `TLS-Required: No` by its header. Pure. */
import type { MessageDraft } from './send-draft.ts';

/** For messages.require_tls: 1 must have TLS all the way, 0 rather arrives than obeys the recipient's policies, null says nothing. */
export function tlsWishOf({ requireTls, headers }: Pick<MessageDraft, 'requireTls' | 'headers'>): 1 | 0 | null {
  if (requireTls != null) return requireTls ? 1 : 0;
  return headers.some(([name, value]) => name.toLowerCase() === 'tls-required' && isWaiver(value)) ? 0 : null;
}

const isWaiver = (value: string): boolean => value.trim().toLowerCase() === 'no';
