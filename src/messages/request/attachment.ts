/** Reads the attachments of a send request: from base64 and a file name to the bytes and type of the mail. */
import { isUtf8 } from 'node:buffer';
import { detectMimeType } from 'nodemailer/lib/mime-funcs/mime-types';
import { Problem } from '../../base/problem.ts';
import type { Attachment } from '../../mail/mime-write.ts';
import type { SendRules, WireMessage } from './message-draft.ts';

type WireAttachment = NonNullable<WireMessage['attachments']>[number];

/** Octets of a file name, the limit of file systems. */
export const LONGEST_FILENAME = 255;

/** Types by extension that the library does not know, or has by older names. It names others if the caller gives no type. */
const newerTypes: Readonly<Record<string, string>> = {
  avif: 'image/avif',
  gz: 'application/gzip',
  heic: 'image/heic',
  m4a: 'audio/mp4',
  md: 'text/markdown',
  ogg: 'audio/ogg',
  pkpass: 'application/vnd.apple.pkpass',
  vcf: 'text/vcard',
};

/** Decodes a request's attachments. Throws the first fault; `at` returns the field name of a member of the n-th one. */
export function decodeAttachments(
  wire: readonly WireAttachment[],
  { limits, files }: Pick<SendRules, 'limits' | 'files'>,
  at: (index: number, member: keyof WireAttachment) => string,
): Attachment[] {
  const contentIds = new Set<string>();
  return wire.map((one, index) => {
    checkFilename(one.filename, limits.blockedExtensions, at(index, 'filename'));
    const contentId = one.content_id ?? null;
    if (contentId !== null && contentIds.has(contentId))
      throw invalid(at(index, 'content_id'), 'is used by another attachment of this message. Give each its own');
    if (contentId !== null) contentIds.add(contentId);
    const content = files?.get(one.content) ?? decodeBase64(Buffer.from(withoutSpace(one.content)));
    if (typeof content === 'string') throw invalid(at(index, 'content'), content);
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
  const extension = extensionOf(filename) ?? '';
  const known = Object.hasOwn(newerTypes, extension) ? newerTypes[extension] : undefined;
  const type = known ?? detectMimeType(`file.${extension}`);
  // The library has such types for archives and saved pages, which are files here.
  if (/^(?:multipart|message)\//.test(type) && extension !== 'eml') return 'application/octet-stream';
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

function withoutSpace(text: string): string {
  let packed = text;
  for (const space of WHITESPACE) if (packed.includes(space)) packed = packed.replaceAll(space, '');
  return packed;
}

/** A multiple of four. What is decoded at a time is a text of its own for a moment; beyond 128 KiB V8 takes five times as long with it. */
const CHUNK = 32 * 1024;
const EQUALS = 0x3d;

/**
 * Decodes base64 (RFC 4648 section 4) without white space; padding is required. Returns the content, or what is wrong.
 * Node's decoder drops unknown characters and also takes the URL alphabet, so the length of the result is compared with the expected one.
 */
export function decodeBase64(text: Buffer): Buffer | string {
  if (/^data:/i.test(text.toString('latin1', 0, 5))) return 'is a data URI: send only the base64 after its comma';
  if (text.includes('-') || text.includes('_')) return 'is base64url: send base64 with the standard alphabet (+ and /)';
  if (text.length % 4 !== 0) return 'is not base64 with padding: its length is not a multiple of four';
  const padding = text.at(-1) !== EQUALS ? 0 : text.at(-2) !== EQUALS ? 1 : 2;
  const size = (text.length / 4) * 3 - padding;
  const octets = Buffer.allocUnsafe(size);
  let to = 0;
  for (let from = 0; from < text.length; from += CHUNK)
    to += octets.write(text.toString('latin1', from, from + CHUNK), to, 'base64');
  return to === size ? octets : 'has characters that are not base64: encode the file again';
}
