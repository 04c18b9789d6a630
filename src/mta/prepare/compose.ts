/** The two steps of making a mail that cost most, for any thread: composing a stored content, with its body hash, and signing the header. */
import { isAscii } from 'node:buffer';
import { LRUCache } from 'lru-cache';
import { asBuffer } from '../../base/bytes.ts';
import { changeHtml } from '../../mail/change-html.ts';
import { relaxedBodyHash } from '../../mail/dkim/canonicalize.ts';
import { signHeaders, type DkimSigner, type SignInput, type SigningKey } from '../../mail/dkim/sign.ts';
import type { BodyFacts } from '../../mail/body-facts.ts';
import { endOfHead, parseHeaders } from '../../mail/header.ts';
import { unsubscribeUrlsIn } from '../../mail/list-unsubscribe.ts';
import { encodeContent, textFromHtml, type EncodedContent, type MimeContent } from '../../mail/mime-write.ts';
import { sevenBitBody, valueOf } from '../../mail/re-encode.ts';
import { withUnsubscribeUrl } from '../../messages/request/unsubscribe.ts';
import type { TextOrBytes } from '../../messages/store/fresh-mails.ts';
import { planHtml, type HtmlPlan, trackedHtml, type Tracking } from '../../tracking/rewrite.ts';

export interface StoredContent {
  id: string;
  html: TextOrBytes | null;
  text: TextOrBytes | null;
  attachments: MimeContent['attachments'];
  /** True if a missing text part is derived from the html. */
  autoText: boolean;
  /** A submitted mail, header and body: nothing is composed then. */
  raw?: Buffer;
  /** A submitted mail goes to a host without 8BITMIME: its parts are encoded if that breaks no signature in it. */
  sevenBit?: true;
  /** The tracking of one recipient's copy; absent if nothing is tracked, and the content is then the same for all. */
  tracking?: Tracking;
}

export interface Composed {
  content: EncodedContent;
  bodyHash: string;
  /** `headers` are the whole header of the mail, not only its Content-* lines. */
  isWhole?: true;
  /** The content has octets beyond ASCII (RFC 6152). */
  eightBit?: boolean;
  /** One mail alone has it. */
  isOwn?: true;
}

/** Rejects if the content cannot be encoded, which then no later try could either. */
export type Compose = (stored: StoredContent) => Promise<Composed>;

/** The parts of a tracked content that are the same for all its recipients. */
interface Reading {
  plan: HtmlPlan;
  plain: string | null;
}

/** `remembered`: the number of tracked contents, the last ones used, whose readings are kept, as many recipients follow one another. */
export function createCompose({ remembered }: { remembered: number }): Compose {
  const readings = new LRUCache<string, Reading>({ max: remembered });

  function readingOf(stored: StoredContent, html: string): Reading {
    const { id } = stored;
    const reading = readings.get(id) ?? { plan: planHtml(html), plain: textOf(plainOf(stored)) };
    readings.set(id, reading);
    return reading;
  }

  return async (stored) => {
    const { id, html, attachments, tracking, raw, sevenBit } = stored;
    if (raw !== undefined) {
      const whole = tracking === undefined ? raw : trackedMail(raw, tracking);
      return splitSubmitted(whole, sevenBit === true);
    }
    if (tracking === undefined) return encode({ html, text: plainOf(stored), attachments }, id);
    const readable = textOf(html);
    if (readable === null)
      return encode({ ...linked({ html: null, text: textOf(plainOf(stored)) }, tracking), attachments }, id);
    const { plan, plain } = readingOf(stored, readable);
    return encode(
      { ...linked({ html: trackedHtml(readable, plan, tracking), text: plain }, tracking), attachments },
      id,
    );
  };
}

const withBuffer = (text: TextOrBytes | null): string | Buffer | null =>
  text === null || typeof text === 'string' ? text : asBuffer(text);

const textOf = (text: TextOrBytes | null): string | null =>
  text === null || typeof text === 'string' ? text : asBuffer(text).toString();

/** Returns one recipient's copy of a submitted mail. Its html is read for each, since such mail has few recipients. */
function trackedMail(raw: Buffer, tracking: Tracking): Buffer {
  const fields = parseHeaders(raw.toString('latin1', 0, endOfHead(raw)));
  const untouched = [...tracking.untouched, ...unsubscribeUrlsIn(valueOf(fields, 'list-unsubscribe') ?? '')];
  return changeHtml(raw, ({ octets, decode }) =>
    trackedHtml(octets, planHtml(octets, decode), { ...tracking, untouched }),
  );
}

/**
 * Splits a submitted mail at the empty line. In 7 bits its header and those of its parts keep octets beyond ASCII: the client
 * wrote them against RFC 5322, receivers read them all the same, so a bounce would be worse. Postfix sends such headers as they are, too.
 */
function splitSubmitted(raw: Buffer, isSevenBit: boolean): Composed {
  const end = endOfHead(raw);
  const [head, body] = [raw.subarray(0, end), raw.subarray(end + 2)];
  const made = isSevenBit ? sevenBitBody(parseHeaders(head.toString('latin1')), body) : null;
  if (made === null) return submitted(head, body, !isAscii(raw));
  return submitted(Buffer.from(made.fields.map((field) => field.raw).join(''), 'latin1'), made.body, false);
}

const submitted = (head: Buffer, body: Buffer, eightBit: boolean): Composed =>
  whole(head, body, { bodyHash: relaxedBodyHash(body), eightBit });

const whole = (head: Buffer, body: Buffer, facts: BodyFacts): Composed => ({
  content: { headers: head.toString(), body },
  isWhole: true,
  ...facts,
});

/** Composes a submitted mail of whose body everything is known. */
export function composeKnown(raw: Buffer, facts: BodyFacts): Composed {
  const end = endOfHead(raw);
  return { isOwn: true, ...whole(raw.subarray(0, end), raw.subarray(end + 2), facts) };
}

/** Puts this recipient's address in the place of the unsubscribe link. */
function linked(
  { html, text }: Pick<MimeContent, 'html' | 'text'>,
  { unsubscribeUrl: url }: Tracking,
): Pick<MimeContent, 'html' | 'text'> {
  if (url === null) return { html, text };
  return {
    html: html === null ? null : withUnsubscribeUrl(html, url, true),
    text: text === null ? null : withUnsubscribeUrl(text, url, false),
  };
}

function plainOf({ html, text, autoText }: StoredContent): TextOrBytes | null {
  const readable = text === null && autoText ? textOf(html) : null;
  return readable === null ? text : textFromHtml(readable);
}

type ContentToEncode = Pick<StoredContent, 'html' | 'text' | 'attachments'>;

async function encode({ html, text, attachments }: ContentToEncode, id: string): Promise<Composed> {
  const content = { html: withBuffer(html), text: withBuffer(text), attachments };
  const { headers, body, isRelaxed } = await encodeContent(content, id);
  return { content: { headers, body }, bodyHash: relaxedBodyHash(body, { isRelaxed }) };
}

/** The signatures to make, with at least one key. */
export interface Unsigned extends Omit<SignInput, 'signers'> {
  keys: readonly SigningKey[];
}

/** The same if the content is not composed yet: `front` is the header up to the content's own lines. */
export type UnsignedFront = Pick<Unsigned, 'timestamp' | 'keys'> & { front: string };

export type MailJob =
  /** Nothing is signed if `sign` is null. */
  { kind: 'compose'; stored: StoredContent; sign: UnsignedFront | null } | { kind: 'sign'; unsigned: Unsigned };

export type MailAnswer =
  /** Others may share the content of a mail that cannot be signed. */
  | { kind: 'composed'; composed: Composed; signed: Signed }
  | Signed
  /** The content cannot be encoded, which no later try could either. */
  | { kind: 'unencodable'; why: string };

/** `signatures` are the DKIM-Signature lines. */
export type Signed = { kind: 'signed'; signatures: string } | { kind: 'unsigned'; why: string };

/** Returns the bytes of a content that is to be composed; nothing else needs them. */
export const bytesOf = ({ html, text, raw, attachments }: StoredContent): Uint8Array[] =>
  [html, text, raw, ...attachments.map(({ content }) => content)].filter((one) => one instanceof Uint8Array);

/** Makes the function that does jobs where it is called, with signers of its own. */
export function createMailMaker(
  compose: Compose,
  signerOf: (key: SigningKey) => DkimSigner,
): (job: MailJob) => Promise<MailAnswer> {
  async function sign({ keys, ...input }: Unsigned): Promise<Signed> {
    try {
      return { kind: 'signed', signatures: await signHeaders({ signers: keys.map(signerOf), ...input }) };
    } catch (error) {
      return { kind: 'unsigned', why: whyOf(error) };
    }
  }

  return async (job) => {
    if (job.kind === 'sign') return sign(job.unsigned);
    try {
      const composed = await compose(job.stored);
      if (job.sign === null) return { kind: 'composed', composed, signed: { kind: 'signed', signatures: '' } };
      const { front, ...rest } = job.sign;
      const { content, bodyHash } = composed;
      return { kind: 'composed', composed, signed: await sign({ head: front + content.headers, bodyHash, ...rest }) };
    } catch (error) {
      return { kind: 'unencodable', why: whyOf(error) };
    }
  };
}

const whyOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
