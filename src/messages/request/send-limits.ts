/** Limits of a send request. */
import { blockedExtensions } from './attachment.ts';

/** Limits of a send request that are settings (`limits.*`). */
export interface SendLimits {
  /** Different addresses in `to`, `cc` and `bcc` of one message. */
  recipients: number;
  /** Entries of a bulk send. */
  bulkRecipients: number;
  /** Attachments of one message. */
  attachments: number;
  /** UTF-8 bytes of `html`. */
  htmlBytes: number;
  /** UTF-8 bytes of `text`. */
  textBytes: number;
  /** Bytes of the whole message after MIME encoding. */
  messageBytes: number;
  /** Extensions (lower case, without dot) of files that are refused. */
  blockedExtensions: readonly string[];
}

/** The default limits. */
export const defaultLimits: SendLimits = {
  recipients: 50,
  bulkRecipients: 1000,
  attachments: 50,
  htmlBytes: 5 * 1024 * 1024,
  textBytes: 5 * 1024 * 1024,
  messageBytes: 25 * 1024 * 1024,
  blockedExtensions,
};

export const MOST_REPLY_TO = 10;
export const MOST_TAGS = 10;
export const MOST_METADATA_KEYS = 50;
