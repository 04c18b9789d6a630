/** Mail to domains that receive: the switch of a domain, the mails, and a filter of webhook endpoints. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw('ALTER TABLE domains ADD COLUMN receiving INTEGER NOT NULL DEFAULT 0');
  await knex.raw(`ALTER TABLE domains ADD COLUMN receiving_addresses_json TEXT NOT NULL DEFAULT '["*"]'`);
  await knex.raw(`ALTER TABLE webhooks ADD COLUMN addresses_json TEXT NOT NULL DEFAULT '[]'`);
  await knex.raw(`CREATE TABLE received (
    id TEXT,
    account_id TEXT NOT NULL,
    domain TEXT NOT NULL,
    at BIGINT NOT NULL,
    status TEXT NOT NULL,
    size INTEGER NOT NULL,
    client_ip TEXT NOT NULL,
    helo TEXT NOT NULL,
    envelope_json TEXT NOT NULL,
    from_json TEXT,
    from_key TEXT NOT NULL,
    to_json TEXT NOT NULL,
    cc_json TEXT NOT NULL,
    reply_to_json TEXT NOT NULL,
    subject TEXT NOT NULL,
    date BIGINT,
    message_id TEXT,
    in_reply_to TEXT,
    references_json TEXT NOT NULL,
    text TEXT,
    html TEXT,
    reply_text TEXT,
    truncated INTEGER NOT NULL,
    attachments_json TEXT NOT NULL,
    spf_json TEXT,
    dkim_json TEXT NOT NULL,
    dmarc_json TEXT,
    spam_headers_json TEXT NOT NULL,
    auto_submitted TEXT,
    answers TEXT,
    FOREIGN KEY (account_id) REFERENCES accounts (id),
    PRIMARY KEY (id)
  )`);
  // Apart from the rest: a change of the row would write it again.
  await knex.raw(`CREATE TABLE received_sources (
    received_id TEXT,
    raw BLOB NOT NULL,
    PRIMARY KEY (received_id)
  )`);
  await knex.raw('CREATE INDEX received_by_account ON received (account_id, id)');
  await knex.raw('CREATE INDEX received_by_sender ON received (from_key, account_id, id)');
  await knex.raw('CREATE INDEX received_by_answered ON received (answers) WHERE answers IS NOT NULL');
  await knex.raw("CREATE INDEX received_to_read ON received (id) WHERE status = 'new'");
}
