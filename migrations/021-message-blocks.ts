/**
 * What messages of long ago have in common: for each 4,096 messages of an account (a block) and each tag, stream, word and so on that
 * some of them have, which of them these are. Two filters that each fit very many are so compared without reading a message.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`CREATE TABLE message_blocks (
    account_id TEXT NOT NULL, block BIGINT NOT NULL, first_id TEXT NOT NULL, last_id TEXT NOT NULL, PRIMARY KEY (account_id, block)
  ) WITHOUT ROWID`);
  await knex.raw(`CREATE TABLE message_sets (
    account_id TEXT NOT NULL, name TEXT NOT NULL, block BIGINT NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (account_id, name, block)
  ) WITHOUT ROWID`);
  await knex.raw('CREATE INDEX message_sets_by_block ON message_sets (account_id, block)');
  // A message between those of a block, which comes with a clock that was set back, would be in none of its sets: the blocks from
  // there on are made anew.
  await knex.raw(`CREATE TRIGGER message_blocks_reopened AFTER INSERT ON messages
    WHEN new.id <= (SELECT last_id FROM message_blocks WHERE account_id = new.account_id ORDER BY block DESC LIMIT 1)
    BEGIN
      DELETE FROM message_sets WHERE account_id = new.account_id
        AND block IN (SELECT block FROM message_blocks WHERE account_id = new.account_id AND last_id >= new.id);
      DELETE FROM message_blocks WHERE account_id = new.account_id AND last_id >= new.id;
    END`);
}
