/** The addresses that the listener takes mail for, at every return-path domain and at our own name. Everything else is refused. */
import { deliveryOf, unsubscribedDelivery, type ReturnPathKey } from '../messages/delivery/return-path.ts';

export type OwnAddress =
  /** A return path (VERP): a bounce, a delay, or an answering machine. */
  | { kind: 'return_path'; deliveryId: string }
  | { kind: 'unsubscribe'; deliveryId: string }
  /** Feedback loops (RFC 5965), and RFC 2142's addresses, which also take them. */
  | { kind: 'feedback' }
  /** DMARC and TLS aggregate reports. */
  | { kind: 'aggregate' }
  | { kind: 'operator' };

const feedback: ReadonlySet<string> = new Set(['fbl', 'abuse', 'complaints']);
const aggregate: ReadonlySet<string> = new Set(['dmarc', 'tls', 'tlsrpt', 'dmarc-reports', 'tls-reports']);

/** Returns what the local part of one of our addresses is for, or null without such an address; a forged token counts as none. Pure. */
export function ownAddress(keys: readonly ReturnPathKey[], localPart: string): OwnAddress | null {
  const bounced = deliveryOf(keys, localPart);
  if (bounced !== null) return { kind: 'return_path', deliveryId: bounced };
  const unsubscribed = unsubscribedDelivery(keys, localPart);
  if (unsubscribed !== null) return { kind: 'unsubscribe', deliveryId: unsubscribed };
  const name = localPart.toLowerCase();
  if (feedback.has(name)) return { kind: 'feedback' };
  if (aggregate.has(name)) return { kind: 'aggregate' };
  return name === 'postmaster' ? { kind: 'operator' } : null;
}
