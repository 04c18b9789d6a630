/** The state that the delivery engine keeps across restarts. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';

/** The MTA-STS policy of a recipient domain as it was last fetched. */
export const stsPolicies = table({
  domain: text(),
  /** The `id` of the TXT record for which it was fetched. */
  policy_id: text(),
  policy_json: text(),
  fetched_at: integer(),
  expires_at: integer(),
});
export type StsPolicyRow = RowOf<typeof stsPolicies>;

/** The TLS of a mail host, as it was observed; `host` is `name:port`. */
export const hostTls = table({
  host: text(),
  /** The TLS hello that it needs, while that is remembered; `none`, written by an earlier version, is not used any more. */
  workaround: orNull(text<'reduced' | 'legacy' | 'none'>()),
  workaround_until: orNull(integer()),
  /** The time when it last offered STARTTLS. */
  offered_at: orNull(integer()),
});
export type HostTlsRow = RowOf<typeof hostTls>;

/** The mails that a limit counts (messages/limits/counts.ts). */
export const limitCounts = table(
  {
    /** The name of the rule; the id of a limit that is set by hand; `~warm-up` for the warm-up of a source. */
    rule: text(),
    /** The subject that is counted apart; of a warm-up the source and the site (the operator's name, or the site's). */
    subject: text(),
    /** A UTC day or hour: `2026-01-31`, `2026-01-31T14`. */
    span: text(),
    /** The place in the daily caps of a warm-up. */
    stage: integer(),
    sent: integer(),
    blocked: integer(),
    deferred: integer(),
    complained: integer(),
  },
  { onConflict: { key: ['rule', 'subject', 'span'], adds: ['sent', 'blocked', 'deferred', 'complained'] } },
);
export type LimitCountRow = RowOf<typeof limitCounts>;

/**
 * Limits that receivers and shaping rules allow, or people set (messages/limits/limit.ts). The address that the system chooses has an empty name on
 * SQLite; on PostgreSQL, where each node has another one, `@` and the name of the node.
 */
export const limits = table(
  {
    /** The kind and the subject in one text; of what is set by hand, `hld_...`. */
    id: text(),
    kind: text<
      'sender' | 'block_list' | 'load' | 'tls' | 'rate' | 'connections' | 'rule' | 'hold' | 'limit' | 'count'
    >(),
    /** Empty for every site. */
    site: text(),
    /** `*` for every source. */
    source: text(),
    /** A recipient domain; null for all. */
    domain: orNull(text()),
    account: orNull(text()),
    set_by: text<'receiver' | 'rule' | 'start' | 'operator'>(),
    connections: orNull(integer()),
    ceiling: orNull(integer()),
    per_minute: orNull(integer()),
    known_per_minute: orNull(integer()),
    per_hour: orNull(integer()),
    per_day: orNull(integer()),
    /** Of what is set by hand, its end; 0 if it has to be ended. */
    until: integer(),
    step: integer(),
    since: integer(),
    changed_at: integer(),
    refused_at: integer(),
    /** The other side's words, or the person's note. */
    cause: text(),
    /** Of what is set by hand: what else it is about; null for all. */
    stream: orNull(text()),
    message_id: orNull(text()),
    batch_id: orNull(text()),
    key_id: orNull(text()),
    /** The person who set it, as the audit log names them; null if an older version set it. */
    actor: orNull(text()),
    /** 1: mail accepted later is held as well. */
    catches_new: integer(),
    /** 1 where it is over: other nodes read that before the row is removed. */
    ended: integer(),
  },
  {
    onConflict: {
      key: ['id'],
      sets: [
        ...['set_by', 'connections', 'ceiling', 'per_minute', 'known_per_minute', 'per_hour', 'per_day', 'until'],
        ...['step', 'since', 'changed_at', 'refused_at', 'cause', 'actor', 'ended'],
      ],
    },
  },
);
export type LimitRow = RowOf<typeof limits>;

/** Returns the `source` of limits of the address that the system chooses; `node` is null on SQLite. No source has a name with an @. */
export const systemSource = (node: string | null): string => (node === null ? '' : `@${node}`);

export const isSystemSource = (source: string): boolean => source === '' || source.startsWith('@');

export const sourceWords = (source: string): string =>
  source === ''
    ? "the system's address"
    : source.startsWith('@')
      ? `the system's address at ${source.slice(1)}`
      : source;

/** A time in which one of our addresses was on a block list. */
export const listings = table({
  ip: text(),
  list: text(),
  since: integer(),
  /** Null while it is still listed. */
  until: orNull(integer()),
  /** The answer of the list, such as `127.0.0.2`. */
  codes: text(),
});
export type ListingRow = RowOf<typeof listings>;

/** The last answer of a block list about an address. */
export const listChecks = table({
  ip: text(),
  list: text(),
  /** `refused`: it does not answer our resolver; `silent`: it does not answer. */
  state: text<'clear' | 'listed' | 'refused' | 'silent'>(),
  at: integer(),
});
export type ListCheckRow = RowOf<typeof listChecks>;
