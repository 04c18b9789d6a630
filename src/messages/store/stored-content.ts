/** Stores message bodies: shared ones once, those of a bulk send with one for each recipient compressed, long ones in pieces. */
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { rowsParameter } from '../../storage/rows-parameter.ts';
import {
  messages as messageTable,
  type AttachmentRow,
  type ContentRow,
  type MessageRow,
} from '../../storage/tables.ts';
import type { Keyring } from '../../base/keyring.ts';
import type { Connection } from '../../storage/connection.ts';
import { statement } from '../../storage/sql.ts';

type Body = Pick<ContentRow, 'html' | 'text'>;
type StoredBody = Body & Pick<ContentRow, 'packed'>;

/** Smaller bodies gain little. */
const LEAST_PACKED = 2048;
/** The best of those that cost less than 1 ms for 50 KB. */
const QUALITY = 2;

/** Returns the body compressed, if it is worth it. */
export function packedBody({ html, text }: Body): StoredBody {
  if ((html?.length ?? 0) + (text?.length ?? 0) < LEAST_PACKED) return { html, text, packed: null };
  const params = { [constants.BROTLI_PARAM_QUALITY]: QUALITY };
  return { html: null, text: null, packed: brotliCompressSync(JSON.stringify([html, text]), { params }) };
}

export function bodyOf({ html, text, packed }: StoredBody): Body {
  if (packed === null) return { html, text };
  const [wholeHtml = null, wholeText = null] = JSON.parse(brotliDecompressSync(packed).toString()) as (string | null)[];
  return { html: wholeHtml, text: wholeText };
}

/** Longer files and mails are stored in pieces of this many octets: while SQLite writes a value it has it in memory four times. */
const PIECE_BYTES = 2 * 1024 * 1024;
/** The distance between the positions of two pieces of a file; a mail has fewer files. */
const NEXT_PIECE = 1_000_000;

/** Returns the rows to write. A submitted mail has behind its first piece the pieces of a file without a first one. */
export const rowsInPieces = ({ contents, attachments }: { contents: ContentRow[]; attachments: AttachmentRow[] }) => ({
  contents: contents.map((row) => ({ ...row, raw: row.raw?.subarray(0, PIECE_BYTES) ?? null })),
  attachments: [
    ...attachments.flatMap(piecesOf),
    ...contents.flatMap(({ id, raw }) =>
      raw === null ? [] : piecesOf({ content_id: id, bytes: raw, ...NO_FILE }).slice(1),
    ),
  ],
});

const NO_FILE = { position: 0, filename: '', content_type: '', cid: null, disposition: 'attachment' } as const;

const piecesOf = (row: AttachmentRow): AttachmentRow[] =>
  Array.from({ length: Math.ceil(row.bytes.length / PIECE_BYTES) || 1 }, (_, at) => ({
    ...row,
    position: row.position + at * NEXT_PIECE,
    bytes: row.bytes.subarray(at * PIECE_BYTES, (at + 1) * PIECE_BYTES),
  }));

/** Returns the files of a content, from its rows in their order. */
export function filesOf(rows: readonly AttachmentRow[]): AttachmentRow[] {
  const files = rows.filter(({ position }) => position < NEXT_PIECE);
  return files.map((file) => {
    const rest = rows.slice(files.length).filter(({ position }) => position % NEXT_PIECE === file.position);
    return rest.length === 0 ? file : { ...file, bytes: Buffer.concat([file, ...rest].map(({ bytes }) => bytes)) };
  });
}

/** Returns a submitted mail of whose content this is the first piece. */
export async function wholeRaw(raw: Buffer | null, loadRest: () => Promise<AttachmentRow[]>): Promise<Buffer | null> {
  if (raw === null || raw.length < PIECE_BYTES) return raw;
  return Buffer.concat([raw, ...(await loadRest()).map(({ bytes }) => bytes)]);
}

/** How far retention has removed the bodies of an account. */
export interface RetentionPlace {
  /** The last message that was looked at; empty at the beginning. */
  mark: string;
  /** The messages up to there that waited then, oldest first: each is looked at again until it is finished. */
  passed: readonly string[];
}

type Owner = Pick<MessageRow, 'content_id' | 'batch_id'>;
const owners = rowsParameter(messageTable.columns, ['content_id', 'batch_id']);

/**
 * Removes the bodies of messages that were removed or cut off from them, with their files. Entries of a bulk send share theirs: a body that another
 * message needs stays. Up to the mark of `place` only messages that wait need theirs, and those that retention has passed over.
 */
export async function removeContents(
  tx: Connection,
  messages: readonly Owner[],
  place: RetentionPlace = { mark: '', passed: [] },
): Promise<void> {
  const unneeded = await tx.all<{ id: string }>(
    statement(
      (sql) => `SELECT c.id FROM (
       SELECT DISTINCT content_id, batch_id FROM ${owners.table(sql, 'given')}) x
     JOIN contents c ON c.id = x.content_id
     WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = x.batch_id AND m.content_id = x.content_id AND m.id > ?)
       AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = x.batch_id AND m.content_id = x.content_id AND (m.id ${sql.among('text')}
         OR EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND d.due_at IS NOT NULL)))`,
    ),
    [owners.json(messages), place.mark, JSON.stringify(place.passed)],
  );
  if (unneeded.length === 0) return;
  const ids = JSON.stringify(unneeded.map(({ id }) => id));
  await tx.run(
    statement(({ among }) => `DELETE FROM attachments WHERE content_id ${among('text')}`),
    [ids],
  );
  await tx.run(
    statement(({ among }) => `DELETE FROM contents WHERE id ${among('text')}`),
    [ids],
  );
}

/**
 * Bodies of our own mails that carry a link to a login, such as invitations. They are stored under `secret.key`, so that a copy of the
 * database opens no login, and removed with the outcome that ends the delivery. The content's id says that it is sealed.
 */

const PREFIX = 'sec_';
const idFor = (messageId: string): string => PREFIX + messageId.slice(PREFIX.length);
const purposeOf = (id: string): string => `content ${id}`;

export function sealContent(keyring: Pick<Keyring, 'seal'>, messageId: string, text: string) {
  const id = idFor(messageId);
  return { id, text: keyring.seal(purposeOf(id), text) };
}

export const isSealedContent = (id: string): boolean => id.startsWith(PREFIX);

/** Throws if its key is lost. */
export const openContent = (keyring: Pick<Keyring, 'open'>, id: string, sealed: string): string =>
  keyring.open(purposeOf(id), sealed).toString();

export async function removeSealedContents(tx: Connection, messageIds: readonly string[]): Promise<void> {
  const ids = JSON.stringify(messageIds.map(idFor));
  await tx.run(
    statement(({ among }) => `DELETE FROM contents WHERE id ${among('text')}`),
    [ids],
  );
}
