/**
 * What housekeeping sums up of long ago, so that lists and numbers need not read all of it. Of messages in blocks: which changed
 * status or were opened or clicked first since their block's codes were made. Of numbers: the lines of each hour and day that is over.
 * Whoever writes into what was summed up notes it in the same transaction, by these triggers; most writes only look whether they must.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await changes(knex);
  await sums(knex);
}

async function changes(knex: Knex): Promise<void> {
  await knex.raw(`CREATE TABLE message_changes (
    account_id TEXT NOT NULL, message_id TEXT NOT NULL, code BIGINT NOT NULL, PRIMARY KEY (account_id, message_id)
  ) WITHOUT ROWID`);
  // The code is that of messages/list/message-states.ts. It is stored, as it is the message's state only as long as nothing else changes.
  await knex.raw(`CREATE TRIGGER message_changed AFTER UPDATE OF status, opens, clicks ON messages
    WHEN (old.status <> new.status OR (old.opens > 0) <> (new.opens > 0) OR (old.clicks > 0) <> (new.clicks > 0))
      AND new.id <= (SELECT last_id FROM message_blocks WHERE account_id = new.account_id ORDER BY block DESC LIMIT 1)
    BEGIN
      INSERT INTO message_changes (account_id, message_id, code) VALUES (new.account_id, new.id,
        (CASE new.status WHEN 'scheduled' THEN 1 WHEN 'queued' THEN 2 WHEN 'sent' THEN 3 WHEN 'deferred' THEN 4 WHEN 'delivered' THEN 5
          WHEN 'bounced' THEN 6 WHEN 'complained' THEN 7 WHEN 'suppressed' THEN 8 WHEN 'failed' THEN 9 WHEN 'canceled' THEN 10 ELSE 0 END)
          * 4 + (new.opens > 0) * 2 + (new.clicks > 0))
      ON CONFLICT (account_id, message_id) DO UPDATE SET code = excluded.code;
    END`);
  // Messages of a block that is made anew may change unseen until then.
  await knex.raw(`CREATE TRIGGER message_blocks_gone AFTER DELETE ON message_blocks
    BEGIN
      DELETE FROM message_changes WHERE account_id = old.account_id AND message_id >= old.first_id AND message_id <= old.last_id;
    END`);
}

async function sums(knex: Knex): Promise<void> {
  await knex.raw(`CREATE TABLE event_sums (
    account_id TEXT NOT NULL, span TEXT NOT NULL, test BIGINT NOT NULL, at BIGINT NOT NULL, version BIGINT NOT NULL,
    stream_json TEXT, domain_json TEXT, template_json TEXT, provider_json TEXT, tag_json TEXT,
    PRIMARY KEY (account_id, span, test, at)
  ) WITHOUT ROWID`);
  await knex.raw('CREATE INDEX event_sums_due ON event_sums (account_id, span, test, at) WHERE stream_json IS NULL');
  const newest = `(SELECT at FROM event_sums WHERE account_id = new.account_id AND span = new.span AND test = new.test ORDER BY at DESC LIMIT 1)`;
  // Every event counts in a row without a tag, so that these rows speak for all of its hour or day.
  for (const [name, event] of [
    ['added', 'INSERT'],
    ['counted', 'UPDATE'],
  ] as const)
    await knex.raw(`CREATE TRIGGER event_sums_${name} AFTER ${event} ON event_counts
      WHEN new.tag = '' AND new.span IN ('hour', 'day') AND new.at <= ${newest}
      BEGIN
        INSERT INTO event_sums (account_id, span, test, at, version) VALUES (new.account_id, new.span, new.test, new.at, 0)
        ON CONFLICT (account_id, span, test, at) DO UPDATE SET version = version + 1,
          stream_json = NULL, domain_json = NULL, template_json = NULL, provider_json = NULL, tag_json = NULL;
      END`);
  await knex.raw(`CREATE TRIGGER event_sums_gone AFTER DELETE ON event_counts
    WHEN old.tag = '' AND old.span IN ('hour', 'day')
    BEGIN
      DELETE FROM event_sums WHERE account_id = old.account_id AND span = old.span AND test = old.test AND at = old.at;
    END`);
}
