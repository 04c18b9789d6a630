/**
 * Delivery status notifications: the machine-readable part of RFC 3464 (`message/delivery-status`), and of RFC 6533 for addresses outside ASCII
 * (`message/global-delivery-status`). Complaints: that of RFC 5965 (`message/feedback-report`), with RFC 6591 for failed authentication and RFC 6590
 * for redaction. Lenient, as real reports have faults: blank lines inside a recipient's fields or none between two recipients, fields before the one
 * that names the recipient, addresses with angle brackets or without their type.
 */
import { decodeWords } from './charset.ts';
import { parseHeaders, type HeaderField } from './header.ts';

/** RFC 3464 section 2.3.3. */
export type ReportAction = 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded';

export interface ReportedRecipient {
  /** The address that the reporting server tried, which may differ from the one that we wrote to. */
  finalRecipient: string | null;
  originalRecipient: string | null;
  action: ReportAction | null;
  /** `5.1.1` (RFC 3463). */
  status: string | null;
  /** The remote's words without their type (`smtp;`). */
  diagnostic: string | null;
}

export interface DeliveryReport {
  reportingMta: string | null;
  originalEnvelopeId: string | null;
  recipients: readonly ReportedRecipient[];
}

const MOST_RECIPIENTS = 100;
/** Blank lines that are looked behind. */
const MOST_BLOCKS = 1000;
const LONGEST_DIAGNOSTIC = 1000;
const LONGEST_ADDRESS = 320;
/** Of a field that names an address. */
const LONGEST_VALUE = 1000;
const STATUS = /(?:^|[^0-9.])([245]\.[0-9]{1,3}\.[0-9]{1,3})(?![0-9.])/;
const QUOTED = /(?<=^<?)"(?:[^"\\]|\\.){1,128}"@[^\s<>@]{1,255}/;
const TYPED = /^\s*([A-Za-z0-9][A-Za-z0-9-]{0,30})\s*;\s*/;

type Draft = { -readonly [Member in keyof ReportedRecipient]: ReportedRecipient[Member] };

/** True for the types of part that `readDeliveryReport` reads. */
export const isDeliveryStatus = (type: string): boolean =>
  type === 'message/delivery-status' || type === 'message/global-delivery-status';

/** Reads the part's text (line ends LF). Never throws; what says nothing gives no recipients. */
export function readDeliveryReport(text: string): DeliveryReport {
  const collector = new Collector();
  for (const block of text.split(/\n[ \t]*\n/, MOST_BLOCKS)) {
    collector.nextBlock();
    for (const field of parseHeaders(block.replace(/^\n+/, ''))) collector.add(field);
  }
  const { reportingMta, originalEnvelopeId, drafts } = collector;
  return { reportingMta, originalEnvelopeId, recipients: drafts.filter(saysSomething) };
}

const saysSomething = ({ finalRecipient, originalRecipient, action, status }: Draft): boolean =>
  finalRecipient !== null || originalRecipient !== null || (action !== null && status !== null);

/** Gathers fields into recipients: a new one begins where the present one already has what comes, or has come to its end. */
class Collector {
  reportingMta: string | null = null;
  originalEnvelopeId: string | null = null;
  readonly drafts: Draft[] = [];
  private isNewBlock = true;

  nextBlock(): void {
    this.isNewBlock = true;
  }

  add({ name, value }: HeaderField): void {
    switch (name.toLowerCase()) {
      case 'reporting-mta':
        this.reportingMta ??= untyped(value).slice(0, LONGEST_ADDRESS);
        return;
      case 'original-envelope-id':
        this.originalEnvelopeId ??= value.slice(0, LONGEST_ADDRESS);
        return;
      case 'final-recipient':
        this.put('finalRecipient', readAddress(value));
        return;
      case 'original-recipient':
        this.put('originalRecipient', readOriginal(value));
        return;
      case 'action':
        this.put('action', readAction(value));
        return;
      case 'status':
        this.put('status', STATUS.exec(value)?.[1] ?? null);
        return;
      case 'diagnostic-code':
        this.put('diagnostic', readDiagnosticCode(value));
        return;
    }
  }

  private put<Member extends keyof Draft>(member: Member, value: Draft[Member]): void {
    if (value === null) return;
    let draft = this.drafts.at(-1);
    if (draft === undefined || this.beginsAnother(draft, member)) {
      if (this.drafts.length >= MOST_RECIPIENTS) return;
      draft = { finalRecipient: null, originalRecipient: null, action: null, status: null, diagnostic: null };
      this.drafts.push(draft);
    }
    this.isNewBlock = false;
    // Some servers write several diagnostic lines as several fields; the first one is the remote's.
    draft[member] ??= value;
  }

  private beginsAnother(draft: Draft, member: keyof Draft): boolean {
    if (member === 'finalRecipient') return draft.finalRecipient !== null;
    if (draft[member] === null) return false;
    return this.isNewBlock || member === 'originalRecipient';
  }
}

/** SendGrid writes `expired`, and Postfix `deliverable` of an address that was only tried. */
const ACTIONS = new Map<string, ReportAction>([
  ...(['failed', 'delayed', 'delivered', 'relayed', 'expanded'] as const).map((action) => [action, action] as const),
  ...(['failure', 'expired'] as const).map((written) => [written, 'failed'] as const),
  ['deliverable', 'delivered'],
  ['delay', 'delayed'],
]);

const readAction = (value: string): ReportAction | null =>
  ACTIONS.get(
    value
      .trim()
      .toLowerCase()
      .split(/[\s;(]/, 1)[0] ?? '',
  ) ?? null;

/** Reads `rfc822; <a@b>`, `utf-8; …` and addresses without a type. Null if there is no address, or only a mark that it was removed. */
export function readAddress(value: string): string | null {
  const text = decodeWords(untyped(value.slice(0, LONGEST_VALUE))).trim();
  const quoted = QUOTED.exec(text)?.[0];
  if (quoted !== undefined) return unescaped(quoted);
  const inner = /<([^<>\s]{1,320})>/.exec(text)?.[1] ?? text.split(/\s/, 1)[0] ?? '';
  // Only now, as an escaped character may be a space outside ASCII, which does not end the address.
  const address = unescaped(trimmed(inner));
  return address === '' || address.length > LONGEST_ADDRESS ? null : address;
}

/** Returns the text without brackets, quotes and separators around it. A loop: `/[...]+$/` would try each of them as a beginning. */
function trimmed(text: string): string {
  let [from, to] = [0, text.length];
  while (from < to && '<("\''.includes(text.charAt(from))) from += 1;
  while (to > from && '>)"\',;.'.includes(text.charAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

/** RFC 3461 section 4: the value is that of ORCPT; some servers pass its xtext on as it was. */
function readOriginal(value: string): string | null {
  const address = readAddress(value);
  if (address === null) return null;
  // `+` alone is common in addresses, so only what xtext must encode, or what is not an address undecoded, is decoded.
  return address.includes('@')
    ? address.replace(/\+(2B|3D)/g, decodeXtext)
    : address.replace(/\+([0-9A-F]{2})/g, decodeXtext);
}

const decodeXtext = (_: string, hex: string): string => String.fromCharCode(Number.parseInt(hex, 16));

/** RFC 6533 section 3: `\x{HEX}` for what ASCII has not. */
function unescaped(text: string): string {
  return text.replace(/\\x\{([0-9A-Fa-f]{1,6})\}/g, (all, hex: string) => {
    const code = Number.parseInt(hex, 16);
    return code > 0x20 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : all;
  });
}

const untyped = (value: string): string => value.replace(TYPED, '').trim();

function readDiagnosticCode(value: string): string | null {
  const text = untyped(decodeWords(value)).replace(/\s+/g, ' ').trim().slice(0, LONGEST_DIAGNOSTIC).toWellFormed();
  return text === '' ? null : text;
}

export interface FeedbackReport {
  /** `abuse`, `fraud`, `virus`, `not-spam`, `opt-out`, `auth-failure`, `other` ...; lower case; null if it is missing. */
  feedbackType: string | null;
  userAgent: string | null;
  /** The recipient who complained, if the report names one. */
  complainants: readonly string[];
  originalMailFrom: string | null;
  originalEnvelopeId: string | null;
  /** As written. */
  arrivalDate: string | null;
}

/** Of a value of a complaint. */
const LONGEST_SAID = 500;
const MOST_COMPLAINANTS = 100;
/** RFC 6590 section 2, and what providers write in its place. */
const REDACTED = /^(?:redacted|removed|hidden|undisclosed|unknown|anonym\w*|x{3,}|\*{3,})(?:@|$)/i;

export const isFeedbackReport = (type: string): boolean => type === 'message/feedback-report';

/** Reads the part's text (line ends LF). Never throws. */
export function readFeedbackReport(text: string): FeedbackReport {
  const values = new Map<string, string[]>();
  // Some generators leave blank lines between the fields.
  for (const { name, value } of parseHeaders(text.replace(/\n\s*\n/g, '\n').replace(/^\s+/, ''))) {
    const key = name.toLowerCase();
    const list = values.get(key);
    if (list === undefined) values.set(key, [value]);
    else if (list.length < MOST_COMPLAINANTS) list.push(value);
  }
  const first = (name: string): string | null => values.get(name)?.[0]?.slice(0, LONGEST_SAID) ?? null;
  const named = [...(values.get('original-rcpt-to') ?? []), ...(values.get('removal-recipient') ?? [])];
  return {
    feedbackType: /^[a-z0-9-]{1,40}/.exec(first('feedback-type')?.toLowerCase() ?? '')?.[0] ?? null,
    userAgent: first('user-agent'),
    complainants: [...new Set(named.map(readComplainant).filter((address) => address !== null))],
    originalMailFrom: readComplainant(first('original-mail-from') ?? ''),
    originalEnvelopeId: first('original-envelope-id'),
    arrivalDate: first('arrival-date') ?? first('received-date'),
  };
}

/** Returns an address that names the recipient; null if it was redacted, which leaves the local part out or replaces it. */
export function readComplainant(value: string): string | null {
  const address = readAddress(value);
  return address === null || !/^[^@]+@[^@]+$/.test(address) || REDACTED.test(address) ? null : address;
}
