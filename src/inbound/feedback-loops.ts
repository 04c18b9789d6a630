/**
 * Providers whose complaints are believed because they are signed (config/feedback-loops.yaml). Whether the signature is good
 * needs DNS; this part, for the reading thread, names the signature to check. Pure.
 */
import { addressesIn } from '../mail/addresses-in.ts';
import { signatureClaims, type SignatureClaim } from '../mail/dkim/verify.ts';
import { fieldsOf } from '../mail/mime-read.ts';
import type { HeaderField } from '../mail/header.ts';

export interface FeedbackLoop {
  name: string;
  /** An address, or `@` and a domain: any address there or below. */
  from: string;
  /** The signing domain. */
  dkim: string;
}

/** The feedback loop that a mail claims to come from, with the signatures that would prove it. */
export interface LoopClaim {
  name: string;
  claims: readonly SignatureClaim[];
}

const MOST_CLAIMS = 2;

/** Returns null for a mail that names none, or has no signature of it with the right body hash. `now` is in seconds. */
export function loopClaim(
  loops: readonly FeedbackLoop[],
  mail: { headers: readonly HeaderField[]; octets: string },
  now: number,
): LoopClaim | null {
  const [from, ...others] = fieldsOf(mail.headers, new Set(['from'])).flatMap((value) =>
    addressesIn(value.slice(0, 1000)),
  );
  if (from === undefined || others.length > 0) return null;
  const loop = loops.find((one) => isFrom(one, from.address.toLowerCase()));
  if (loop === undefined) return null;
  const claims = signatureClaims(mail.octets, (domain) => domain === loop.dkim, now).slice(0, MOST_CLAIMS);
  return claims.length === 0 ? null : { name: loop.name, claims };
}

function isFrom({ from }: FeedbackLoop, address: string): boolean {
  if (!from.startsWith('@')) return address === from;
  const host = address.slice(address.lastIndexOf('@') + 1);
  return host === from.slice(1) || host.endsWith(`.${from.slice(1)}`);
}
