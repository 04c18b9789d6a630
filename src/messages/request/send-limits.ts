/** Limits of a send request. */
import { BLOCKED_EXTENSIONS } from '../../base/blocked-extensions.ts';
import type { Config } from '../../config/schema.ts';

/** The settings `limits.*` of a send request. */
export type SendLimits = Omit<Config['limits'], 'bodyBytes' | 'singleBodyBytes'>;

export const defaultLimits: SendLimits = {
  recipients: 50,
  bulkRecipients: 1000,
  attachments: 50,
  htmlBytes: 5 * 1024 * 1024,
  textBytes: 5 * 1024 * 1024,
  messageBytes: 25 * 1024 * 1024,
  blockedExtensions: BLOCKED_EXTENSIONS,
};

export const MOST_REPLY_TO = 10;
export const MOST_TAGS = 10;
export const MOST_METADATA_KEYS = 50;
