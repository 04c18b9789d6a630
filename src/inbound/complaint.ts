/**
 * Complaints: feedback reports (RFC 5965), and the forms of providers that send the mail back without one (Microsoft's
 * JMRP). Who complained is often redacted; the token, the mark of the copy and the Message-ID of the returned head find the
 * delivery then. Its Feedback-ID does not: it names a campaign, an account and a stream, and no mail.
 */
import { soughtDomain } from '../mail/address.ts';
import { tagList } from '../mail/dkim/key-record.ts';
import { readComplainant } from '../mail/feedback-report.ts';
import type { HeaderField } from '../mail/header.ts';
import { fieldsOf } from '../mail/mime-read.ts';
import { foldText } from './bounce-words.ts';
import type { Finding, FoundRecipient } from './finding.ts';
import { addresseesOf, addressesOf } from './named-recipients.ts';
import type { Notice } from './notice.ts';

const MOST_COMPLAINANTS = 100;
const MOST_SIGNATURES = 10;
const LONGEST_SIGNATURE = 4096;

/** Microsoft's JMRP puts this header before the returned mail to name the recipient who complained. */
const JMRP = 'x-hmxmroriginalrecipient';
/** The headers of all providers that do so. */
const COMPLAINANT = new Set([JMRP, 'x-original-rcpt-to', 'x-complaint-to', 'x-aol-recipient']);
const PROVIDER_SUBJECT =
  /^(?:complaint about message from|abuse report|email feedback report|spam report|feedback loop|fbl report|client tos notification)\b/;

type Complaint = Pick<Finding, 'feedback' | 'recipients' | 'returned'>;

/** Returns the complaint in a notice that says so in fields or in its subject, or null for any other mail. */
export const complaintIn = (notice: Notice): Complaint | null =>
  notice.feedback !== null || hasProviderSubject(notice) ? complaintOf(notice) : null;

/** Returns the complaint that only a mark of a provider makes one, which has to be asked for last: a bounce brings a head back as well. */
export const markedComplaint = (notice: Notice): Complaint | null =>
  notice.delivery === null && marksIn(notice.original, COMPLAINANT).length > 0 ? complaintOf(notice) : null;

function complaintOf(notice: Notice): Complaint {
  const { feedback } = notice;
  return {
    recipients: complainantsOf(notice).map(complainant),
    feedback: {
      // A report without a type comes from a spam button as well.
      type: feedback?.feedbackType ?? 'abuse',
      source: feedback !== null ? 'arf' : marksIn(notice.original, new Set([JMRP])).length > 0 ? 'jmrp' : 'other',
      userAgent: feedback?.userAgent ?? null,
      arrivalDate: feedback?.arrivalDate ?? null,
    },
    returned: domainsIn(notice.original),
  };
}

function domainsIn(original: readonly HeaderField[]): NonNullable<Finding['returned']> {
  const authors = addressesOf(original, new Set(['from'])).map((address) =>
    soughtDomain(address.slice(address.lastIndexOf('@') + 1)),
  );
  const signers = fieldsOf(original, new Set(['dkim-signature']))
    .slice(0, MOST_SIGNATURES)
    .flatMap((value) => tagList(value.slice(0, LONGEST_SIGNATURE))?.get('d')?.toLowerCase() ?? []);
  return { authors: [...new Set(authors)].slice(0, MOST_COMPLAINANTS), signers };
}

function complainantsOf({ feedback, original }: Notice): readonly string[] {
  const inReport = feedback?.complainants ?? [];
  if (inReport.length > 0) return inReport;
  const marked = marksIn(original, COMPLAINANT)
    .map(readComplainant)
    .filter((address) => address !== null);
  if (marked.length > 0) return [...new Set(marked)];
  const addressees = [...new Set(addresseesOf(original))].slice(0, MOST_COMPLAINANTS);
  const named = addressees.filter((address) => readComplainant(address) !== null);
  if (named.length > 0) return named;
  const received = fieldsOf(original, new Set(['received'])).flatMap((value) => readFor(value));
  // Redacted ones at last: they show how the report was redacted.
  return received.length > 0 ? received.slice(0, 1) : addressees;
}

/** Reads `for <a@b>` (RFC 5321 section 4.4): the recipient for whom a server on the way took the mail. */
function readFor(received: string): string[] {
  const address = readComplainant(/\bfor\s{1,20}<([^<>\s]{1,320})>/.exec(received)?.[1] ?? '');
  return address === null ? [] : [address];
}

/** Providers put their fields before the mail, above its trace (RFC 5321 section 4.4). Below it are the sender's, who may use any name. */
function marksIn(original: readonly HeaderField[], names: ReadonlySet<string>): string[] {
  const trace = original.findIndex(({ name }) => name.toLowerCase() === 'received');
  return fieldsOf(trace < 0 ? original : original.slice(0, trace), names);
}

const hasProviderSubject = ({ subject, original, delivery }: Notice): boolean =>
  original.length > 0 && delivery === null && PROVIDER_SUBJECT.test(foldText(subject).trim());

export const complainant = (address: string): FoundRecipient => ({
  address,
  original: null,
  action: null,
  status: null,
  impliedStatus: null,
  diagnostic: null,
  code: null,
  verdict: null,
  rule: null,
});
