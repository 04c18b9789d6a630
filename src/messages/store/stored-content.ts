/**
 * How bodies lie in the database. Mails of one bulk send that were rendered from the same source are stored as deltas of it, and
 * the source once: a thousand of 50 KB take as much room as what differs in them. The source is the sender's own text and holds
 * nothing of any recipient; it goes with the last body that needs it.
 */
import { appliedDelta, createDeltaMaker, type DeltaMaker } from './delta.ts';
import { newId } from '../../base/id.ts';
import type { Connection } from '../../storage/connection.ts';
import type { ContentBaseRow, ContentRow, MessageRow } from '../../storage/tables.ts';

/** What a body was rendered from; bodies of the same source have the same object. */
export interface ContentSource {
  html: string | null;
  text: string | null;
}

type Body = Pick<ContentRow, 'html' | 'text'>;

/** Fewer bodies, or less text, gain nothing. */
const FEWEST_BODIES = 4;
const SMALLEST_SOURCE = 2048;

/** Stores the bodies of one bulk send. */
export interface BodyStore {
  /** The body as it is stored. */
  store(body: Body, source: ContentSource | undefined): Body & { base_id: string | null };
  /** What must be stored with them. */
  bases(): ContentBaseRow[];
}

/** `sources`: of each of the bodies that will come. */
export function createBodyStore(sources: readonly (ContentSource | undefined)[], now: number): BodyStore {
  const uses = new Map<ContentSource, number>();
  for (const source of sources) if (source !== undefined) uses.set(source, (uses.get(source) ?? 0) + 1);
  const kept = new Map<ContentSource, Base>();

  function baseOf(source: ContentSource): Base | null {
    const size = (source.html?.length ?? 0) + (source.text?.length ?? 0);
    if (size < SMALLEST_SOURCE || (uses.get(source) ?? 0) < FEWEST_BODIES) return null;
    const base = kept.get(source) ?? newBase(source, now);
    kept.set(source, base);
    return base;
  }

  return {
    store(body, source) {
      const base = source === undefined ? null : baseOf(source);
      const [html, text] = [deltaOf(base?.html, body.html), deltaOf(base?.text, body.text)];
      // Both or none: one column says of both how they are stored.
      if (base === null || html === undefined || text === undefined) return { ...body, base_id: null };
      base.isUsed = true;
      return { html, text, base_id: base.row.id };
    },
    bases: () => [...kept.values()].flatMap(({ row, isUsed }) => (isUsed ? [row] : [])),
  };
}

interface Base {
  row: ContentBaseRow;
  html: DeltaMaker | null;
  text: DeltaMaker | null;
  isUsed: boolean;
}

const makerOf = (text: string | null): DeltaMaker | null => (text === null ? null : createDeltaMaker(text));

const newBase = (source: ContentSource, now: number): Base => ({
  row: { id: newId('cnt', now), html: source.html, text: source.text },
  html: makerOf(source.html),
  text: makerOf(source.text),
  isUsed: false,
});

/** Undefined where the part is better stored as it is. */
function deltaOf(maker: DeltaMaker | null | undefined, part: string | null): string | null | undefined {
  if (part === null) return null;
  return maker?.of(part) ?? undefined;
}

/** The body as it was rendered, of a row that was read with its base. */
export function bodyOf(
  row: Body & { base_id: string | null; base_html: string | null; base_text: string | null },
): Body {
  if (row.base_id === null) return { html: row.html, text: row.text };
  const part = (base: string | null, delta: string | null): string | null =>
    delta === null ? null : appliedDelta(base ?? '', delta);
  return { html: part(row.base_html, row.html), text: part(row.base_text, row.text) };
}

type Owner = Pick<MessageRow, 'content_id' | 'batch_id'>;

/** Reads what removing the bodies of these messages will touch. */
export async function lookAtContents(reader: Pick<Connection, 'all'>, messages: readonly Owner[]): Promise<void> {
  const ids = JSON.stringify(messages.map(({ content_id }) => content_id));
  await reader.all('SELECT COUNT(base_id) FROM contents WHERE id IN (SELECT value FROM json_each(?))', [ids]);
  await reader.all('SELECT COUNT(*) FROM attachments WHERE content_id IN (SELECT value FROM json_each(?))', [ids]);
}

/**
 * Removes the bodies of messages that were removed or cut off from them, with their files, and the bases that none is left for.
 * Entries of a bulk send share theirs: what another message needs stays. `after`: only messages with later ids count as others.
 */
export async function removeContents(tx: Connection, messages: readonly Owner[], after = ''): Promise<void> {
  const unneeded = await tx.all<{ id: string; base_id: string | null }>(
    `SELECT c.id, c.base_id FROM (SELECT DISTINCT value->>0 AS content_id, value->>1 AS batch_id FROM json_each(?)) x
     JOIN contents c ON c.id = x.content_id
     WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = x.batch_id AND m.content_id = x.content_id AND m.id > ?)`,
    [JSON.stringify(messages.map(({ content_id, batch_id }) => [content_id, batch_id])), after],
  );
  if (unneeded.length === 0) return;
  const ids = JSON.stringify(unneeded.map(({ id }) => id));
  const within = 'IN (SELECT value FROM json_each(?))';
  await tx.run(`DELETE FROM attachments WHERE content_id ${within}`, [ids]);
  await tx.run(`DELETE FROM contents WHERE id ${within}`, [ids]);
  const bases = [...new Set(unneeded.flatMap(({ base_id }) => base_id ?? []))];
  if (bases.length === 0) return;
  await tx.run(
    `DELETE FROM content_bases WHERE id ${within} AND NOT EXISTS (SELECT 1 FROM contents c WHERE c.base_id = content_bases.id)`,
    [JSON.stringify(bases)],
  );
}
