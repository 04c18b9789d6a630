/**
 * TLS reports have an entry for each mail host with TLSA records (RFC 8460 section 1.1: its policy domain is the TLSA base domain),
 * and remember who has got them. Plaintext that was remembered for three days is forgotten.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('tls_sessions_by_base', (t) => {
    t.text('day').notNullable();
    t.text('domain').notNullable();
    t.text('policy').notNullable();
    t.text('base').notNullable();
    t.text('result').notNullable();
    t.text('mx').notNullable();
    t.text('ip').notNullable();
    t.text('local_ip').notNullable();
    t.text('reason').notNullable();
    t.integer('sessions').notNullable();
    t.primary(['day', 'domain', 'policy', 'base', 'result', 'mx', 'ip', 'local_ip', 'reason']);
  });
  await knex.schema.createTable('tls_policies_by_base', (t) => {
    t.text('day').notNullable();
    t.text('domain').notNullable();
    t.text('policy').notNullable();
    t.text('base').notNullable();
    t.text('strings_json').notNullable();
    t.text('mx_json').notNullable();
    t.primary(['day', 'domain', 'policy', 'base']);
  });
  await knex.raw(`INSERT INTO tls_sessions_by_base
    SELECT day, domain, policy, '', result, mx, ip, local_ip, reason, sessions FROM tls_sessions`);
  await knex.raw(`INSERT INTO tls_policies_by_base
    SELECT day, domain, policy, '', strings_json, mx_json FROM tls_policies`);
  await knex.schema.dropTable('tls_sessions');
  await knex.schema.dropTable('tls_policies');
  await knex.schema.renameTable('tls_sessions_by_base', 'tls_sessions');
  await knex.schema.renameTable('tls_policies_by_base', 'tls_policies');
  await knex.schema.alterTable('tls_reports', (t) => {
    t.text('served_json');
  });
  await knex.raw("UPDATE host_tls SET workaround = NULL, workaround_until = NULL WHERE workaround = 'none'");
}
