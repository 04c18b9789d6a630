/** Reads the attachments of a send request: from base64 and a file name to the bytes and type of the mail. */
import { isUtf8 } from 'node:buffer';
import { Problem } from '../../base/problem.ts';
import type { Attachment } from '../../mail/mime-write.ts';
import type { SendLimits } from './send-limits.ts';
import type { WireMessage } from './message-draft.ts';

type WireAttachment = NonNullable<WireMessage['attachments']>[number];

/** Octets of a file name, the limit of file systems. */
export const LONGEST_FILENAME = 255;

/** Types by extension, for common files; anything else is application/octet-stream unless the caller gives a type. */
const typeOfExtension: ReadonlyMap<string, string> = new Map(
  Object.entries({
    '7z': 'application/x-7z-compressed',
    avif: 'image/avif',
    bmp: 'image/bmp',
    csv: 'text/csv',
    doc: 'application/msword',
    docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    eml: 'message/rfc822',
    gif: 'image/gif',
    gz: 'application/gzip',
    heic: 'image/heic',
    htm: 'text/html',
    html: 'text/html',
    ics: 'text/calendar',
    jpeg: 'image/jpeg',
    jpg: 'image/jpeg',
    json: 'application/json',
    m4a: 'audio/mp4',
    md: 'text/markdown',
    mov: 'video/quicktime',
    mp3: 'audio/mpeg',
    mp4: 'video/mp4',
    odp: 'application/vnd.oasis.opendocument.presentation',
    ods: 'application/vnd.oasis.opendocument.spreadsheet',
    odt: 'application/vnd.oasis.opendocument.text',
    ogg: 'audio/ogg',
    pdf: 'application/pdf',
    pkpass: 'application/vnd.apple.pkpass',
    png: 'image/png',
    ppt: 'application/vnd.ms-powerpoint',
    pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
    rtf: 'application/rtf',
    svg: 'image/svg+xml',
    tif: 'image/tiff',
    tiff: 'image/tiff',
    txt: 'text/plain',
    vcf: 'text/vcard',
    wav: 'audio/wav',
    webm: 'video/webm',
    webp: 'image/webp',
    xls: 'application/vnd.ms-excel',
    xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    xml: 'application/xml',
    zip: 'application/zip',
  }),
);

/** Decodes a request's attachments. Throws the first fault; `at` returns the field name of a member of the n-th one. */
export function decodeAttachments(
  wire: readonly WireAttachment[],
  limits: Pick<SendLimits, 'blockedExtensions'>,
  at: (index: number, member: keyof WireAttachment) => string,
): Attachment[] {
  const contentIds = new Set<string>();
  return wire.map((one, index) => {
    checkFilename(one.filename, limits.blockedExtensions, at(index, 'filename'));
    const contentId = one.content_id ?? null;
    if (contentId !== null && contentIds.has(contentId))
      throw invalid(at(index, 'content_id'), 'is used by another attachment of this message. Give each its own');
    if (contentId !== null) contentIds.add(contentId);
    const content = decodeBase64(one.content, at(index, 'content'));
    return {
      filename: one.filename,
      contentType: one.content_type ?? typeOf(one.filename, content),
      contentId,
      disposition: one.disposition ?? (contentId === null ? 'attachment' : 'inline'),
      content,
    };
  });
}

const invalid = (field: string, says: string): Problem =>
  new Problem('invalid_attachment', `\`${field}\` ${says}.`, { field });

function checkFilename(filename: string, blocked: readonly string[], field: string): void {
  if (Buffer.byteLength(filename) > LONGEST_FILENAME)
    throw invalid(field, `must have at most ${String(LONGEST_FILENAME)} bytes`);
  const extension = extensionOf(filename);
  if (extension === null || !blocked.includes(extension)) return;
  const why = `Mail systems refuse files of the type .${extension}; send a link, or put the file into an archive.`;
  throw new Problem('attachment_type_not_allowed', why, { field });
}

/** Returns the type by the extension. A text without a charset would be read as ASCII (RFC 2046 section 4.1.2), or by a guess. */
function typeOf(filename: string, content: Buffer): string {
  const type = typeOfExtension.get(extensionOf(filename) ?? '') ?? 'application/octet-stream';
  return type.startsWith('text/') && isUtf8(content) ? `${type}; charset=utf-8` : type;
}

/**
 * Returns the extension in lower case. Dots and spaces at the end are ignored, because Windows drops them when it saves
 * (`a.EXE. ` runs as a.exe), and so are invisible characters, because a program that drops them would save a.exe as well.
 */
function extensionOf(filename: string): string | null {
  const shown = filename.replace(/[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu, '').replace(/[.\s]+$/, '');
  const dot = shown.lastIndexOf('.');
  return dot === -1 ? null : shown.slice(dot + 1).toLowerCase();
}

const WHITESPACE = ['\n', '\r', ' ', '\t'] as const;

/**
 * Decodes base64 (RFC 4648 section 4): padding is required, white space is ignored. Node's decoder drops unknown characters and
 * also takes the URL alphabet, so the length of the result is compared with the expected one. That costs a fifth of a pattern
 * over 40 MB.
 */
function decodeBase64(text: string, field: string): Buffer {
  const refuse = (why: string): Problem => invalid(field, why);
  if (/^\s{0,16}data:/i.test(text)) throw refuse('is a data URI: send only the base64 after its comma');
  let packed = text;
  for (const space of WHITESPACE) if (packed.includes(space)) packed = packed.replaceAll(space, '');

  if (packed.includes('-') || packed.includes('_'))
    throw refuse('is base64url: send base64 with the standard alphabet (+ and /)');
  if (packed.length % 4 !== 0) throw refuse('is not base64 with padding: its length is not a multiple of four');
  const padding = packed.endsWith('==') ? 2 : packed.endsWith('=') ? 1 : 0;
  const content = Buffer.from(packed, 'base64');
  const isAscii = Buffer.byteLength(packed) === packed.length;
  if (!isAscii || content.length !== (packed.length / 4) * 3 - padding)
    throw refuse('has characters that are not base64: encode the file again');
  return content;
}
