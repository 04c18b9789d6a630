/** Changes the html of a mail that others wrote. Changed parts are encoded again (re-encode.ts); everything else stays octet for octet. */
import { withCrlf } from './body-facts.ts';
import { decodeCharset, decodeTransfer } from './charset.ts';
import { readContentType } from './content-type.ts';
import { endOfHead, parseHeaders } from './header.ts';
import { asMime, changeParts, encodedPart, isSealed, valueOf } from './re-encode.ts';

export interface HtmlOctets {
  /** One character an octet, in a charset in which ASCII is ASCII. Line ends are CRLF. */
  octets: string;
  /** Returns the text of a piece of it. */
  decode: (piece: string) => string;
}

/** Returns the html with changes that are of ASCII, or the same. */
export type ChangeHtml = (html: HtmlOctets) => string;

const DEEPEST = 20;
/** The transfer encodings of RFC 2045 section 6.1; none is 7bit. */
const KNOWN_ENCODINGS = /^(?:|7bit|8bit|binary|base64|quoted-printable)$/i;
/** Charsets in which the octets of ASCII stand for other characters as well. */
const NOT_ASCII_BASED = /^(?:utf-?(?:7|16|32)|iso-2022|hz|csiso2022|ucs|unicode)/i;

/** Returns the mail (CRLF line ends) with its html parts changed: not signed and encrypted parts, attachments and mails inside. */
export const changeHtml = (mail: Buffer, change: ChangeHtml): Buffer => changePart(mail, change, 0);

function changePart(part: Buffer, change: ChangeHtml, depth: number): Buffer {
  const end = endOfHead(part);
  // Without an empty line it is a header alone.
  if (end === part.length || depth > DEEPEST) return part;
  const fields = parseHeaders(part.toString('latin1', 0, end));
  const body = part.subarray(end + 2);
  const { type, params } = readContentType(valueOf(fields, 'content-type'));
  const boundary = params.get('boundary') ?? '';
  if (type.startsWith('multipart/') && boundary !== '' && !isSealed(type))
    return Buffer.concat([
      part.subarray(0, end + 2),
      changeParts(body, boundary, (inner) => changePart(inner, change, depth + 1)) ?? body,
    ]);
  const charset = params.get('charset') ?? null;
  const isAttached = /^\s*attachment\b/i.test(valueOf(fields, 'content-disposition') ?? '');
  if (type !== 'text/html' || isAttached || NOT_ASCII_BASED.test(charset?.trim() ?? '')) return part;
  const encoding = valueOf(fields, 'content-transfer-encoding');
  if (!KNOWN_ENCODINGS.test(encoding?.trim() ?? '')) return part;
  const octets = withCrlf(Buffer.from(decodeTransfer(body.toString('latin1'), encoding), 'latin1')).toString('latin1');
  const changed = change({ octets, decode: (piece) => decodeCharset(piece, charset) });
  if (changed === octets) return part;
  const done = encodedPart(fields, Buffer.from(changed, 'latin1'), { isText: true, like: body });
  const head = depth === 0 ? asMime(done.fields) : done.fields;
  return Buffer.concat([Buffer.from(`${head.map(({ raw }) => raw).join('')}\r\n`, 'latin1'), done.body]);
}
