/** Takes what people have set by hand (holds, pauses, limits of lanes) into the table of limits, where several things can be named together. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  for (const name of ['stream', 'message_id', 'batch_id', 'key_id', 'actor'])
    await knex.raw(`ALTER TABLE limits ADD COLUMN ${name} TEXT`);
  await knex.raw('ALTER TABLE limits ADD COLUMN catches_new BIGINT NOT NULL DEFAULT 1');
  const rows = (await knex('holds').select('*')) as Hold[];
  for (const row of rows) await knex('limits').insert(limitOf(row));
  await knex.schema.dropTable('holds');
}

interface Hold {
  id: string;
  kind: 'hold' | 'limit';
  scope: 'domain' | 'lane' | 'account' | 'stream' | 'message' | 'source';
  target: string;
  account_id: string | null;
  catches_new: number;
  connections: number | null;
  per_minute: number | null;
  note: string | null;
  until: number | string | null;
  created_at: number | string;
  created_by: string | null;
}

function limitOf({ id, kind, scope, target, created_at: at, ...row }: Hold) {
  // A lane is named after its site, and its source behind a slash.
  const slash = scope === 'lane' ? target.lastIndexOf('/') : -1;
  const source = scope === 'source' ? target : slash < 0 ? '*' : target.slice(slash + 1);
  return {
    ...{ id, kind, source, site: scope !== 'lane' ? '' : slash < 0 ? target : target.slice(0, slash) },
    ...{ domain: scope === 'domain' ? target : null, account: row.account_id, set_by: 'operator' },
    ...{ connections: row.connections, ceiling: null, per_minute: row.per_minute, known_per_minute: null },
    ...{ until: row.until ?? 0, step: 0, since: at, changed_at: at, refused_at: 0, cause: row.note ?? '', ended: 0 },
    ...{ stream: scope === 'stream' ? target : null, message_id: scope === 'message' ? target : null },
    ...{ batch_id: null, key_id: null, actor: row.created_by, catches_new: row.catches_new },
  };
}
