/** Stores the bodies of bulk sends compressed, each by itself, instead of as deltas against what they have in common. */
import { brotliCompressSync, constants } from 'node:zlib';
import type { Knex } from 'knex';

interface Row {
  id: string;
  html: string | null;
  text: string | null;
  base_html: string | null;
  base_text: string | null;
}

const AT_A_TIME = 100;

export async function up(knex: Knex): Promise<void> {
  await knex.raw('ALTER TABLE contents ADD COLUMN packed BLOB');
  for (let after = ''; ;) {
    const rows: Row[] = await knex('contents as c')
      .join('content_bases as b', 'b.id', 'c.base_id')
      .where('c.id', '>', after)
      .orderBy('c.id')
      .limit(AT_A_TIME)
      .select('c.id', 'c.html', 'c.text', 'b.html as base_html', 'b.text as base_text');
    for (const { id, html, text, base_html, base_text } of rows) {
      const body = JSON.stringify([applied(base_html, html), applied(base_text, text)]);
      const packed = brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } });
      await knex('contents').where({ id }).update({ html: null, text: null, packed });
      after = id;
    }
    if (rows.length < AT_A_TIME) break;
  }
  await knex.raw('DROP INDEX contents_by_base');
  await knex.raw('ALTER TABLE contents DROP COLUMN base_id');
  await knex.raw('DROP TABLE content_bases');
}

/** A delta is JSON, `[offset, length, "text", offset, length]`: two numbers copy a piece of the base, a text is inserted as it is. */
function applied(base: string | null, delta: string | null): string | null {
  if (delta === null) return null;
  const parts = JSON.parse(delta) as (string | number)[];
  let text = '';
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at];
    if (typeof part === 'string') text += part;
    else text += base?.slice(part, Number(part) + Number(parts[++at])) ?? '';
  }
  return text;
}
