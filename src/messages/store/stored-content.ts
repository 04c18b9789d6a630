/**
 * Stores message bodies. The bodies of one bulk send are mostly one template with other values: their common parts are stored
 * once, as their base, and each body as a delta against it. A thousand bodies of 48 KB then take as much room as their differences.
 * The base has only pieces that several bodies share, so nothing of a single recipient, and is removed with the last body that needs it.
 *
 * A delta is JSON, `[offset, length, "text", offset, length]`: two numbers copy a piece of the base, a text is inserted as it is.
 */
import { newId } from '../../base/id.ts';
import type { Connection } from '../../storage/connection.ts';
import { rowsParameter } from '../../storage/rows-parameter.ts';
import {
  messages as messageTable,
  type ContentBaseRow,
  type ContentRow,
  type MessageRow,
} from '../../storage/tables.ts';
import { statement } from '../../storage/sql.ts';

type Body = Pick<ContentRow, 'html' | 'text'>;

/** Fewer bodies, or smaller ones, gain nothing. */
const FEWEST_BODIES = 4;
const SMALLEST_BODY = 2048;
/** Bodies that are searched for common pieces: 0.3 ms each for 48 KB. */
const SAMPLES = 8;
/** A piece is common if half of the samples have it, and at least this many. */
const FEWEST_USES = 3;
/** Copying a piece costs about as many characters; a shorter one is only copied together with the one before it. */
const COPY_LENGTH = 12;

/** `bodies`: those that will be stored, each once. */
export function createBodyStore(bodies: readonly Body[], now: number) {
  const large = bodies.filter((body) => lengthOf(body) >= SMALLEST_BODY);
  const samples = large.length < FEWEST_BODIES ? [] : large.slice(0, SAMPLES);
  const [html, text] = [baseOf(samples.map((one) => one.html)), baseOf(samples.map((one) => one.text))];
  const row: ContentBaseRow = { id: newId('cnt', now), html: html.text, text: text.text };
  let isUsed = false;
  return {
    /** Returns the body as it is stored. */
    store(body: Body): Body & { base_id: string | null } {
      const whole = { ...body, base_id: null };
      if (samples.length === 0) return whole;
      const delta = { html: deltaOf(html, body.html), text: deltaOf(text, body.text), base_id: row.id };
      if (lengthOf(delta) > lengthOf(body) / 2) return whole;
      isUsed = true;
      return delta;
    },
    /** Returns what must be stored with them. */
    bases: (): ContentBaseRow[] => (isUsed ? [row] : []),
  };
}

/** Stores the bodies of one request. */
export type BodyStore = ReturnType<typeof createBodyStore>;

const lengthOf = ({ html, text }: Body): number => (html?.length ?? 0) + (text?.length ?? 0);

interface Base {
  text: string;
  pieces: readonly string[];
  /** The offset of each piece in the text. */
  offsets: readonly number[];
  /** The first index of each piece that is worth copying alone. */
  indexes: ReadonlyMap<string, number>;
}

/** Ends behind a tag or a line, so that texts with other values in between still have equal pieces. Whole characters only. */
const PIECE = /[^>\n]{1,200}[>\n]?|[>\n]/uy;

function pieceAt(text: string, at: number): string {
  PIECE.lastIndex = at;
  return PIECE.exec(text)?.[0] ?? text.slice(at);
}

function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += pieces.at(-1)?.length ?? 0) pieces.push(pieceAt(text, at));
  return pieces;
}

/** Makes a base of the pieces that most of the samples have, in the order of the samples. */
function baseOf(samples: readonly (string | null)[]): Base {
  const cut = samples.flatMap((sample) => (sample === null ? [] : [piecesOf(sample)]));
  const uses = new Map<string, number>();
  for (const own of cut) for (const piece of new Set(own)) uses.set(piece, (uses.get(piece) ?? 0) + 1);
  const fewest = Math.max(FEWEST_USES, cut.length / 2);
  const pieces: string[] = [];
  const seen = new Set<string>();
  for (const own of cut) {
    pieces.push(...own.filter((piece) => (uses.get(piece) ?? 0) >= fewest && !seen.has(piece)));
    for (const piece of own) seen.add(piece);
  }
  const offsets: number[] = [];
  const indexes = new Map<string, number>();
  let end = 0;
  for (const [index, piece] of pieces.entries()) {
    offsets.push(end);
    end += piece.length;
    if (piece.length >= COPY_LENGTH && !indexes.has(piece)) indexes.set(piece, index);
  }
  return { text: pieces.join(''), pieces, offsets, indexes };
}

function deltaOf({ pieces, offsets, indexes }: Base, text: string | null): string | null {
  if (text === null) return null;
  const parts: (string | number)[] = [];
  let own = '';
  let copied = { from: 0, length: 0 };
  /** The piece of the base that is expected next: values are between pieces that are neighbours there. */
  let next = 0;
  const flush = (): void => {
    if (copied.length > 0) parts.push(copied.from, copied.length);
    if (own !== '') parts.push(own);
    own = '';
  };
  for (let at = 0; at < text.length;) {
    const expected = pieces[next];
    // Comparing with what is expected costs a tenth of cutting a piece and looking it up.
    const isExpected = expected !== undefined && text.startsWith(expected, at);
    const piece = isExpected ? expected : pieceAt(text, at);
    at += piece.length;
    const index = isExpected ? next : indexes.get(piece);
    if (index === undefined) {
      own += piece;
      continue;
    }
    const from = offsets[index] ?? 0;
    if (own === '' && from === copied.from + copied.length) copied.length += piece.length;
    else {
      flush();
      copied = { from, length: piece.length };
    }
    next = index + 1;
  }
  flush();
  return JSON.stringify(parts);
}

/** Returns the body as it was sent, of a row that was read with its base. */
export function bodyOf(
  row: Body & { base_id: string | null; base_html: string | null; base_text: string | null },
): Body {
  if (row.base_id === null) return { html: row.html, text: row.text };
  return { html: applyDelta(row.base_html, row.html), text: applyDelta(row.base_text, row.text) };
}

function applyDelta(base: string | null, delta: string | null): string | null {
  if (delta === null) return null;
  const parts = JSON.parse(delta) as (string | number)[];
  let text = '';
  for (let n = 0; n < parts.length; n++) {
    const part = parts[n];
    if (typeof part === 'string') {
      text += part;
      continue;
    }
    const length = parts[++n];
    if (typeof part !== 'number' || typeof length !== 'number') throw new Error('a stored body is not a delta');
    text += base?.slice(part, part + length) ?? '';
  }
  return text;
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

/** Reads what removing the bodies of these messages will touch. */
export async function lookAtContents(reader: Pick<Connection, 'all'>, messages: readonly Owner[]): Promise<void> {
  const ids = JSON.stringify(messages.map(({ content_id }) => content_id));
  await reader.all(
    statement(({ among }) => `SELECT COUNT(base_id) FROM contents WHERE id ${among('text')}`),
    [ids],
  );
  await reader.all(
    statement(({ among }) => `SELECT COUNT(*) FROM attachments WHERE content_id ${among('text')}`),
    [ids],
  );
}

/**
 * Removes the bodies of messages that were removed or cut off from them, with their files, and bases without a body.
 * Entries of a bulk send share theirs: a body that another message needs stays. Up to the mark of `place` only messages that wait need theirs,
 * and those that retention has passed over.
 */
export async function removeContents(
  tx: Connection,
  messages: readonly Owner[],
  place: RetentionPlace = { mark: '', passed: [] },
): Promise<void> {
  const unneeded = await tx.all<{ id: string; base_id: string | null }>(
    statement(
      (sql) => `SELECT c.id, c.base_id FROM (
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
  const bases = [...new Set(unneeded.flatMap(({ base_id }) => base_id ?? []))];
  if (bases.length === 0) return;
  await tx.run(
    statement(
      ({ among }) =>
        `DELETE FROM content_bases WHERE id ${among('text')} AND NOT EXISTS (SELECT 1 FROM contents c WHERE c.base_id = content_bases.id)`,
    ),
    [JSON.stringify(bases)],
  );
}
