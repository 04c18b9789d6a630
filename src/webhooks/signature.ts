/** Standard Webhooks 1.0, symmetric: HMAC-SHA256 over `<id>.<timestamp>.<body>`, one `v1,<base64>` a valid secret, with spaces between. Pure. */
import { createHmac } from 'node:crypto';

export const SECRET_BYTES = 32;
const PREFIX = 'whsec_';

export interface SignatureHeaders {
  'webhook-id': string;
  'webhook-timestamp': string;
  'webhook-signature': string;
}

/** Returns a secret as it is shown: `whsec_` and base64. */
export const writeSecret = (secret: Buffer): string => PREFIX + secret.toString('base64');

/** Signs a call. `timestamp` is the second of this attempt, Unix time. An id has no `.`, or the signed content could be read in two ways. */
export function sign(
  secrets: readonly Buffer[],
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): SignatureHeaders {
  const content = `${id}.${String(timestamp)}.${body}`;
  const signatures = secrets.map((secret) => `v1,${createHmac('sha256', secret).update(content).digest('base64')}`);
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signatures.join(' '),
  };
}
