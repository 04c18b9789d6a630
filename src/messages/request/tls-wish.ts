/** Reads what a message asks of TLS (RFC 8689): REQUIRETLS by the envelope, or `TLS-Required: No` by its header. Pure. */
import type { MessageDraft } from './send-draft.ts';

/**
 * Returns the value of messages.require_tls: 1 requires TLS on all hops, 0 prefers delivery over the recipient's TLS policies,
 * null asks for nothing.
 */
export function tlsWishOf({ requireTls, headers }: Pick<MessageDraft, 'requireTls' | 'headers'>): 1 | 0 | null {
  if (requireTls != null) return requireTls ? 1 : 0;
  return headers.some(([name, value]) => name.toLowerCase() === 'tls-required' && isWaiver(value)) ? 0 : null;
}

const isWaiver = (value: string): boolean => value.trim().toLowerCase() === 'no';
