/**
 * Finds the delivery of a report, which counts only with proof: the token of a return path or an unsubscribe address, a copy's mark, or a feedback
 * loop's signature. A Message-ID finds it as well, but every reply and forward has it, so it proves nothing.
 */
import { soughtAddress } from '../mail/address.ts';
import { addressesIn } from '../mail/addresses-in.ts';
import { readComplainant } from '../mail/delivery-report.ts';
import { isSignedBy, signedValues, type SignatureClaim } from '../mail/dkim/verify.ts';
import {
  deliveryOf,
  deliveryOfCopy,
  unsubscribedDelivery,
  type ReturnPathKey,
} from '../messages/delivery/return-path.ts';
import type { Connection } from '../storage/connection.ts';
import type { DeliveryRow } from '../storage/tables.ts';
import type { InboundContext } from './context.ts';
import type { FeedbackLoop, LoopClaim } from './feedback-loops.ts';
import type { Finding } from './finding.ts';

export type Owner = Pick<DeliveryRow, 'id' | 'account_id' | 'message_id' | 'address' | 'address_key'> & {
  stream: string;
  from_domain: string;
  /** The API request that made the message, for the log. */
  request_id: string | null;
};

/** The proof that the report is about the delivery; null without one. */
export type Proof = 'token' | 'copy' | 'feedback_loop' | null;

export interface Match {
  owner: Owner;
  proof: Proof;
  loop: FeedbackLoop['name'] | null;
}

type MatchContext = Pick<InboundContext, 'db' | 'log' | 'keys' | 'resolver' | 'isVerifiedHost'>;

const OWNER = `SELECT d.id, d.account_id, d.message_id, d.address, d.address_key, m.stream, m.from_domain, m.request_id FROM deliveries d JOIN messages m ON m.id = d.message_id`;
/** Addresses in the To field of a report that are looked at. */
const MOST_ADDRESSEES = 10;
const LONGEST_TO = 1000;
const OWN_ID = /^<?(msg_[0-7][0-9a-hjkmnp-tv-z]{25})(?=@|$)/;

export async function findMatch(context: MatchContext, finding: Finding): Promise<Match | null> {
  const { db, keys } = context;
  const proven = provenDelivery(keys, finding);
  if (proven !== null) {
    const [owner] = await db.prepared.all<Owner>(`${OWNER} WHERE d.id = ?`, [proven.deliveryId]);
    return owner === undefined ? null : { owner, proof: proven.proof, loop: null };
  }
  if (finding.kind !== 'complaint' && finding.kind !== 'bounce') return null;
  const owner = await byMessage(db.prepared, finding);
  if (owner === null) return null;
  const claim = finding.kind === 'complaint' && fits(finding, owner) ? (finding.loop ?? null) : null;
  const loop = claim === null ? null : await signedBy(context, claim);
  return { owner, proof: loop === null ? null : 'feedback_loop', loop };
}

function provenDelivery(
  keys: readonly ReturnPathKey[],
  { kind, token, isTokenInText, copy }: Finding,
): { deliveryId: string; proof: Proof } | null {
  if (kind === 'unsubscribe') {
    // The head of a copy comes back with unsubscribe mails, too: it names the delivery, not the request.
    const asked = token === null ? null : unsubscribedDelivery(keys, `unsub+${token}`);
    return asked === null ? null : { deliveryId: asked, proof: 'token' };
  }
  const byToken = { deliveryId: token === null ? null : deliveryOf(keys, `b+${token}`), proof: 'token' } as const;
  const byCopy = { deliveryId: copy === null ? null : deliveryOfCopy(keys, copy), proof: 'copy' } as const;
  for (const { deliveryId, proof } of isTokenInText ? [byCopy, byToken] : [byToken, byCopy])
    if (deliveryId !== null) return { deliveryId, proof };
  return null;
}

/** Returns the condition that finds the message `m` with this Message-ID, and the value in it: one of our own making has our id in it. */
export function messageNamed(messageId: string): { condition: string; value: string } {
  const [, own] = OWN_ID.exec(messageId) ?? [];
  if (own !== undefined) return { condition: 'm.id = ?', value: own };
  return { condition: "m.rfc_message_id = ? AND substr(m.rfc_message_id, 1, 5) <> '<msg_'", value: messageId };
}

/** Finds the delivery by its message: many reports leave out the recipient (RFC 5965). For a message with several the report must name one. */
async function byMessage(db: Connection, { messageId, recipients }: Finding): Promise<Owner | null> {
  if (messageId === null) return null;
  const { condition, value } = messageNamed(messageId);
  const owners = await db.all<Owner>(`${OWNER} WHERE ${condition} LIMIT 100`, [value]);
  const named = new Set(recipients.map(({ address }) => soughtAddress(address)));
  const matching = owners.filter(({ address_key }) => named.has(address_key));
  const [only, ...others] = matching.length > 0 ? matching : owners;
  return only === undefined || others.length > 0 ? null : only;
}

/** True if nothing of the returned mail contradicts our message: anyone can write its Message-ID in a mail that is truly reported. */
function fits({ recipients, returned }: Finding, { address_key, from_domain }: Owner): boolean {
  const named = recipients.map(({ address }) => readComplainant(address)).filter((address) => address !== null);
  const { authors, signers } = returned ?? { authors: [], signers: [] };
  return (
    (named.length === 0 || named.some((address) => soughtAddress(address) === address_key)) &&
    authors.every((domain) => domain === from_domain) &&
    (signers.length === 0 || signers.includes(from_domain))
  );
}

/** Returns the name of the feedback loop if one of the signatures is good. */
async function signedBy(context: MatchContext, { name, claims }: LoopClaim): Promise<string | null> {
  const { resolver, log } = context;
  for (const claim of claims) {
    if (!(await isAddressedToUs(context, claim))) continue;
    const answer = await resolver.txt(`${claim.selector}._domainkey.${claim.domain}`);
    if (answer.kind === 'trouble')
      log.warn(
        { event: 'feedback_loop_unknown', domain: claim.domain },
        'the key of a feedback loop could not be looked up: its complaint counts as unverified',
      );
    if (answer.kind === 'found' && answer.records.some((record) => isSignedBy(claim, record))) return name;
  }
  return null;
}

/** True if the signed To names one of our hosts: anyone may complain of their own mail with our Message-ID, but that report goes to them. */
async function isAddressedToUs(context: MatchContext, claim: SignatureClaim): Promise<boolean> {
  const to = signedValues(claim, 'to').join(', ').slice(0, LONGEST_TO);
  for (const { address } of addressesIn(to).slice(0, MOST_ADDRESSEES))
    if (await context.isVerifiedHost(address.slice(address.lastIndexOf('@') + 1).toLowerCase())) return true;
  return false;
}
