/** Decides what a report means for its delivery, and the state of its row. */
import type { DeliveryChange } from '../messages/delivery/delivery.ts';
import { bouncedBy, complainedBy, type StandIn } from '../messages/delivery/reported.ts';
import type { Connection } from '../storage/connection.ts';
import type { ReportRow } from '../storage/tables.ts';
import type { Finding } from './finding.ts';
import type { Match, Owner } from './report-owner.ts';

export interface Meaning {
  /** Null if it changes nothing. For an `unverified` report, the change if it were true. */
  change: DeliveryChange | null;
  state: Extract<ReportRow['state'], 'done' | 'unmatched' | 'unverified' | 'unreadable'>;
}

/** Returns whether a report of this kind needs an owner; the others have none to find. */
const needsOwner = ({ kind }: Finding): boolean =>
  kind === 'bounce' || kind === 'delay' || kind === 'complaint' || kind === 'unsubscribe';

/** Decides what the report means. `match`: its delivery, and the proof. */
export async function meaningOf(
  db: Connection,
  { sender }: Pick<ReportRow, 'sender'>,
  finding: Finding,
  match: Match | null,
): Promise<Meaning> {
  // An aggregate report that could be read does not come here: it is counted.
  if (finding.kind === 'report') return { change: null, state: 'unreadable' };
  if (match === null) return { change: null, state: needsOwner(finding) ? 'unmatched' : 'done' };
  const change = await changeOf(db, sender, finding, match.owner);
  return { change, state: change !== null && match.proof === null ? 'unverified' : 'done' };
}

async function changeOf(
  db: Connection,
  sender: string,
  finding: Finding,
  owner: Owner,
): Promise<DeliveryChange | null> {
  switch (finding.kind) {
    case 'bounce':
      return countsAsReport(sender, finding)
        ? bouncedBy(finding.recipients, owner.address_key, standInOf(finding.isWellFormed, sender))
        : null;
    case 'complaint':
      return complainedBy({ type: null, source: 'arf', userAgent: null, arrivalDate: null, ...finding.feedback });
    case 'unsubscribe':
      return (await isUnsubscribed(db, owner)) ? null : { kind: 'unsubscribed', method: 'mailto' };
    case 'delay':
    case 'auto_reply':
    case 'report':
    case 'other':
      return null;
  }
}

/** Returns whether the mail counts. Everyone who gets the mail knows its token: a report must also look like one, in its sender or in its form. */
const countsAsReport = (sender: string, { isWellFormed }: Finding): boolean =>
  isWellFormed ||
  sender === '' ||
  /^(?:postmaster|mailer-daemon|mail-daemon|maildaemon|double-bounce|bounce[sd]?|noreply-mailer)@/i.test(sender);

const standInOf = (isWellFormed: boolean, sender: string): StandIn =>
  isWellFormed ? 'report' : sender === '' ? 'notice' : 'letter';

async function isUnsubscribed(db: Connection, { account_id, address_key, stream }: Owner): Promise<boolean> {
  const [row] = await db.all(
    "SELECT 1 FROM suppressions WHERE account_id = ? AND address_key = ? AND scope = ? AND reason = 'unsubscribe' AND expires_at IS NULL",
    [account_id, address_key, `stream:${stream}`],
  );
  return row !== undefined;
}
