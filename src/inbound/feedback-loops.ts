/** Providers whose signed complaints are believed (config/feedback-loops.yaml). Names the signature that DNS is asked about later. Pure. */
import { parseMailbox, type Mailbox } from '../mail/address.ts';
import { signatureClaims, signedValues, type SignatureClaim } from '../mail/dkim/verify.ts';

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
/** The marks of a second address, or of what one reader takes for it and the next does not. */
const DOUBTFUL = /[@<>,;:()]/;

/** Returns null without a loop's signature over the right body. Only signed octets prove: From, as one strict mailbox. `now`: seconds. */
export function loopClaim(loops: readonly FeedbackLoop[], octets: string, now: number): LoopClaim | null {
  const claims = signatureClaims(octets, (domain) => loops.some(({ dkim }) => dkim === domain), now);
  const proven = claims.flatMap((claim) => {
    const from = mailboxOf(signedValues(claim, 'from'));
    const loop = loops.find((one) => one.dkim === claim.domain && from !== null && isFrom(one, from));
    return loop === undefined ? [] : [{ name: loop.name, claim }];
  });
  const [first] = proven;
  if (first === undefined) return null;
  const same = proven.filter(({ name }) => name === first.name).slice(0, MOST_CLAIMS);
  return { name: first.name, claims: same.map(({ claim }) => claim) };
}

function mailboxOf([value = '', ...others]: readonly string[]): Mailbox | null {
  const parsed = parseMailbox(value.replace(/[ \t]+/g, ' '));
  if (others.length > 0 || parsed.kind === 'bad' || DOUBTFUL.test(parsed.mailbox.name ?? '')) return null;
  return parsed.mailbox;
}

function isFrom({ from }: FeedbackLoop, { address, domain }: Mailbox): boolean {
  if (!from.startsWith('@')) return address.toLowerCase() === from;
  return domain === from.slice(1) || domain.endsWith(`.${from.slice(1)}`);
}
