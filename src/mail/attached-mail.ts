/**
 * A mail, or another part of a type `message/...`, that is attached. RFC 2045 section 6.4 and RFC 2046 section 5.2 allow those no
 * encoding but 7bit, 8bit and binary, and we send 7bit only. The inner parts of a mail are encoded if they have to be; one that
 * cannot be brought into 7 bits that way goes as `message/global`, for which RFC 6532 section 3.7 allows base64. What is neither,
 * such as a report outside ASCII (RFC 3464 section 2.1), goes as a file.
 */
import { isUtf8 } from 'node:buffer';
import { hasLongLine, isPlain, sevenBitMail, withCrlf } from './re-encode.ts';

export interface AttachedMail {
  contentType: string;
  contentTransferEncoding: '7bit' | 'base64';
  content: Buffer;
}

const LONGEST_LINE = 998;
/** Most that encoding the inner parts may add: beyond it base64 of the whole is shorter. */
const GROWTH = 1.6;
const HEADER_LINES = 10_000;

/** True for the types that this module is about: those of RFC 6532 and RFC 6533 may be encoded. */
export const isMessageType = (contentType: string): boolean => /^\s*message\/(?!global)/i.test(contentType);

export const isMailType = (contentType: string): boolean => /^\s*message\/rfc822\s*(?:;|$)/i.test(contentType);

/** Returns the part. `boundary` is the text that all boundaries of the outer mail have in them: the attached one must not. */
export function attachedMail(contentType: string, content: Buffer, boundary: string): AttachedMail {
  if (!isMailType(contentType)) return plainPart(contentType, withCrlf(content), boundary);
  // Other content is a file, whatever its sender calls it: its bytes arrive unchanged.
  if (!beginsLikeMail(content)) return asFile(contentType, 'application/octet-stream', content);
  const inner = sevenBitMail(content);
  if (inner !== null && inner.length <= attachedSize(content) && !inner.includes(boundary))
    return { contentType, contentTransferEncoding: '7bit', content: inner };
  return asFile(contentType, isUtf8(headOf(content)) ? 'message/global' : 'application/octet-stream', content);
}

const plainPart = (contentType: string, content: Buffer, boundary: string): AttachedMail =>
  isPlain(content) && !hasLongLine(content) && !content.includes(boundary)
    ? { contentType, contentTransferEncoding: '7bit', content }
    : asFile(contentType, 'application/octet-stream', content);

const asFile = (contentType: string, type: string, content: Buffer): AttachedMail => ({
  contentType: contentType.replace(/^\s*message\/[^\s;]*/i, type),
  contentTransferEncoding: 'base64',
  content,
});

/** Returns whether it is the beginning of a mail: it begins with a header field, in mailbox files behind a line `From ...`. */
const beginsLikeMail = (content: Buffer): boolean =>
  /^(?:>?From [^\r\n]{0,500}\r?\n)?[!-9;-~]{1,76}[ \t]{0,10}:/.test(content.toString('latin1', 0, 1000));

/** Returns the octets that such a mail takes at most. Time is linear. */
export function attachedSize(content: Buffer): number {
  const { bare, longest } = lineEndsOf(content);
  const isFit = longest <= LONGEST_LINE && isPlain(content);
  return bare + (isFit ? content.length : Math.ceil(GROWTH * content.length) + HEADER_LINES);
}

function headOf(mail: Buffer): Buffer {
  const ends = [mail.indexOf('\r\n\r\n'), mail.indexOf('\n\n')].filter((end) => end >= 0);
  return mail.subarray(0, Math.min(mail.length, ...ends));
}

/** Returns how many line ends lack one of their two octets, and the longest line. */
function lineEndsOf(content: Buffer): { bare: number; longest: number } {
  let bare = 0;
  let longest = 0;
  let start = 0;
  for (let at = content.indexOf(0x0a); at >= 0; at = content.indexOf(0x0a, start)) {
    if (content[at - 1] !== 0x0d) bare++;
    longest = Math.max(longest, at - start);
    start = at + 1;
  }
  for (let at = content.indexOf(0x0d); at >= 0; at = content.indexOf(0x0d, at + 1))
    if (content[at + 1] !== 0x0a) bare++;
  return { bare, longest: Math.max(longest, content.length - start) };
}
