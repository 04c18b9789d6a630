/**
 * What lists of messages and events are filtered by: an index for each, so that a filter that fits little is as quick as one
 * that fits much; and the words of subjects, each with the messages it stands in.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('messages', (t) => {
    t.index(['account_id', 'stream', 'id'], 'messages_by_stream');
    t.index(['account_id', 'from_domain', 'id'], 'messages_by_domain');
    t.index(['account_id', 'template_id', 'id'], 'messages_by_template', {
      predicate: knex.whereNotNull('template_id'),
    });
    // SQLite allows no parameters here. Most mail is neither; what is not in them costs nothing.
    t.index(['account_id', 'id'], 'messages_test', { predicate: knex.whereRaw('test = 1') });
    t.index(['account_id', 'id'], 'messages_opened', { predicate: knex.whereRaw('opens > 0') });
    t.index(['account_id', 'id'], 'messages_clicked', { predicate: knex.whereRaw('clicks > 0') });
  });
  await knex.raw('CREATE INDEX messages_by_sender ON messages (account_id, lower(from_address), id)');
  // The sequence is the row's own number, which every index of SQLite ends with.
  await knex.schema.alterTable('events', (t) => {
    t.index(['account_id', 'test', 'type'], 'events_by_account');
  });
  await knex.raw(`CREATE TABLE message_words (
    account_id TEXT NOT NULL, word TEXT NOT NULL, message_id TEXT NOT NULL, PRIMARY KEY (account_id, word, message_id)
  ) WITHOUT ROWID`);
  await fillWords(knex);
}

const ROWS_AT_ONCE = 2000;

/** The words of what is there already. As in messages/list/subject-words.ts at the time of writing; a migration never changes. */
async function fillWords(knex: Knex): Promise<void> {
  let after = '';
  for (;;) {
    const rows = (await knex('messages')
      .select('id', 'account_id', 'subject')
      .where('id', '>', after)
      .orderBy('id')
      .limit(ROWS_AT_ONCE)) as { id: string; account_id: string; subject: string }[];
    const last = rows.at(-1);
    if (last === undefined) return;
    const words = rows.flatMap(({ id, account_id, subject }) =>
      [...new Set(subject.toLowerCase().split(/\s+/))]
        .filter((word) => word !== '')
        .map((word) => [account_id, word.slice(0, 64), id]),
    );
    await knex.raw(
      'INSERT OR IGNORE INTO message_words (account_id, word, message_id) SELECT value->>0, value->>1, value->>2 FROM json_each(?)',
      [JSON.stringify(words)],
    );
    after = last.id;
  }
}
