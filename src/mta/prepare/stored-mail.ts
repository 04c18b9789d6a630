/** Loads what a mail is made of: the rows of the delivery and its message, the content, and its attachments. */
import type { Attachment } from '../../mail/mime-write.ts';
import type { FreshMail, TextOrBytes } from '../../messages/store/fresh-mails.ts';
import { bodyOf, filesOf, wholeRaw } from '../../messages/store/stored-content.ts';
import type { Connection } from '../../storage/connection.ts';
import { columnsFrom, jsonReader } from '../../storage/json-rows.ts';
import { statement } from '../../storage/sql.ts';
import type { AttachmentRow, ContentRow, DeliveryRow, MessageRow } from '../../storage/tables.ts';

const DELIVERY_COLUMNS = [
  'id',
  'message_id',
  'type',
  'address',
  'domain',
  'test',
  'class',
] as const satisfies readonly (keyof DeliveryRow)[];
const MESSAGE_COLUMNS = [
  'account_id',
  'content_id',
  'from_name',
  'from_address',
  'from_domain',
  'to_name',
  'to_address',
  'cc_json',
  'reply_to_json',
  'subject',
  'headers_json',
  'stream',
  'test_outcome',
  'rfc_message_id',
  'created_at',
  'send_at',
  'batch_id',
  'key_id',
  'track_opens',
  'track_clicks',
  'tracking_url',
  'unsubscribe_json',
  'null_sender',
  'require_tls',
  'request_id',
] as const satisfies readonly (keyof MessageRow)[];

export type StoredMail = Pick<DeliveryRow, (typeof DELIVERY_COLUMNS)[number]> &
  Pick<MessageRow, (typeof MESSAGE_COLUMNS)[number]>;

const readRows = jsonReader<StoredMail>(
  { ...columnsFrom('d', DELIVERY_COLUMNS), ...columnsFrom('m', MESSAGE_COLUMNS) },
  ({ listed }) =>
    `FROM ${listed('w', 'text')} JOIN deliveries d ON d.id = w.value JOIN messages m ON m.id = d.message_id`,
);

export async function loadStoredMails(db: Connection, ids: readonly string[]): Promise<Map<string, StoredMail>> {
  const rows = await readRows(db, [JSON.stringify(ids)]);
  return new Map(rows.map((row) => [row.id, row]));
}

/** JSON makes an object with fixed members. V8 makes a dictionary, which is slower, of one that gets so many members one by one. */
const blank = JSON.parse(
  JSON.stringify(Object.fromEntries([...DELIVERY_COLUMNS, ...MESSAGE_COLUMNS].map((name) => [name, null]))),
) as Record<keyof StoredMail, null>;

/** Returns the same of rows that were just written. */
export function storedMailOf({ message, delivery }: { message: MessageRow; delivery: DeliveryRow }): StoredMail {
  const mail: Record<keyof StoredMail, unknown> = { ...blank };
  for (const name of DELIVERY_COLUMNS) mail[name] = delivery[name];
  for (const name of MESSAGE_COLUMNS) mail[name] = message[name];
  return mail as StoredMail;
}

/** The time that the mail and its signatures show, in ms: when it was accepted, or its later `send_at`. The same at each try. */
export const writtenAt = (row: Pick<StoredMail, 'created_at' | 'send_at'>): number =>
  Math.max(row.created_at, row.send_at ?? 0);

/** A content without its large parts, which are loaded when there is room for them. */
export type StoredText<Text extends TextOrBytes = TextOrBytes> = Pick<
  FreshMail<Text>['content'],
  'id' | 'html' | 'text' | 'auto_text' | 'attachment_count'
> & { is_raw: number };

const readContents = statement(
  ({ listed }) => `SELECT c.id, c.html, c.text, c.auto_text, c.attachment_count, c.raw IS NOT NULL AS is_raw, c.packed
     FROM ${listed('w', 'text')} JOIN contents c ON c.id = w.value`,
);

export async function loadContents(db: Connection, ids: readonly string[]): Promise<Map<string, StoredText<string>>> {
  const rows = await db.all<Pick<StoredText, 'is_raw'> & ContentRow>(readContents, [JSON.stringify(ids)]);
  return new Map(rows.map(({ packed, ...row }) => [row.id, { ...row, ...bodyOf({ packed, ...row }) }]));
}

/** Loads the bytes of a mail that was accepted as it is; null if they are gone. */
export async function loadRaw(db: Connection, contentId: string): Promise<Buffer | null> {
  const [row] = await db.all<Pick<ContentRow, 'raw'>>('SELECT raw FROM contents WHERE id = ?', [contentId]);
  return wholeRaw(row?.raw ?? null, () => loadPieces(db, contentId));
}

export const loadAttachments = async (db: Connection, contentId: string): Promise<Attachment[]> =>
  filesOf(await loadPieces(db, contentId)).map(attachmentOf);

const loadPieces = (db: Connection, contentId: string): Promise<AttachmentRow[]> =>
  db.all('SELECT * FROM attachments WHERE content_id = ? ORDER BY position', [contentId]);

export const attachmentOf = ({ filename, content_type, cid, disposition, bytes }: AttachmentRow): Attachment => ({
  filename,
  contentType: content_type,
  contentId: cid,
  disposition,
  content: bytes,
});
