/**
 * Remembers the TLS of mail hosts over restarts: which hello a host needs (for a day), and that a host used to offer STARTTLS. If
 * it stops offering it, or every handshake breaks, an attacker may be on the way: the log has a warning. That a host got
 * plaintext is not stored: after a restart TLS is tried first.
 */
import { createLru } from '../../base/lru.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Database } from '../../storage/database.ts';
import type { HostTlsRow } from '../../storage/tables.ts';
import { createTlsMemory, HELLO_MS, type TlsMemory } from '../connection/dial.ts';
import { DAY_MS } from '../../base/time.ts';

export type HostTls = ReturnType<typeof createHostTls>;

/** A host that offered TLS within this time is expected to offer it, in ms. */
const EXPECTED_MS = 30 * DAY_MS;
const MOST_HOSTS = 10_000;
/** Hosts that are read again when domains come from another node. */
export const HOSTS_REREAD = 1000;

export function createHostTls(deps: { db: Pick<Database, 'prepared' | 'commit'>; clock: Clock; log: Log }) {
  const { db, clock, log } = deps;
  const inner = createTlsMemory();
  const offered = createLru<string, number>(MOST_HOSTS);
  const warned = createLru<string, number>(MOST_HOSTS);

  /** Saves without waiting: losing it costs one handshake more. */
  function save(host: string, change: Partial<Omit<HostTlsRow, 'host'>>): void {
    const { workaround = null, workaround_until: until = null, offered_at: at = null } = change;
    const isWorkaround = 'workaround' in change;
    db.commit
      .transact((tx) =>
        tx.run(
          `INSERT INTO host_tls (host, workaround, workaround_until, offered_at) VALUES (?, ?, ?, ?)
           ON CONFLICT (host) DO UPDATE SET ${
             isWorkaround
               ? 'workaround = excluded.workaround, workaround_until = excluded.workaround_until'
               : 'offered_at = excluded.offered_at'
           }`,
          [host, workaround, until, at],
        ),
      )
      .catch((error: unknown) =>
        log.error({ event: 'storage_failed', err: error }, 'what was learnt of a host could not be written'),
      );
  }

  /** Warns once a day for each host. */
  function warn(host: string, facts: object, text: string): void {
    const now = clock.now();
    if (now - (warned.get(host) ?? -Infinity) < DAY_MS) return;
    warned.set(host, now);
    log.warn({ event: 'tls_downgrade', host, ...facts }, text);
  }

  return {
    memory: {
      get: (host, now) => inner.get(host, now),
      set(host, workaround, now) {
        const before = inner.get(host, now);
        inner.set(host, workaround, now);
        if (workaround === 'full' && before !== 'full') save(host, { workaround: null, workaround_until: null });
        if (workaround === 'reduced' || workaround === 'legacy')
          save(host, { workaround, workaround_until: now + HELLO_MS });
      },
      downgraded(host, reason) {
        warn(host, { reason }, 'every TLS handshake with a mail host broke, and mail goes to it in plaintext');
      },
    } satisfies TlsMemory,
    /** Reads what earlier runs and other nodes have learnt, of the hosts that were last seen to offer TLS. */
    async load(most = MOST_HOSTS): Promise<void> {
      const now = clock.now();
      const rows = await db.prepared.all<HostTlsRow>(
        'SELECT * FROM host_tls WHERE workaround_until > ? OR offered_at > ? ORDER BY offered_at DESC LIMIT ?',
        [now, now - EXPECTED_MS, most],
      );
      for (const { host, workaround, workaround_until: until, offered_at: at } of rows.reverse()) {
        // An earlier version stored plaintext, too, and kept every entry for three days.
        if (workaround !== null && workaround !== 'none' && until !== null && until > now)
          inner.set(host, workaround, Math.min(now, until - HELLO_MS));
        if (at !== null) offered.set(host, at);
      }
    },
    /** Notes that a mail was sent to this host (`name:port`), with TLS or without. */
    noteUse(host: string, isSecured: boolean): void {
      const now = clock.now();
      const before = offered.get(host) ?? -Infinity;
      if (isSecured) {
        if (now - before < DAY_MS) return;
        offered.set(host, now);
        save(host, { offered_at: now });
        return;
      }
      if (now - before > EXPECTED_MS) return;
      const facts = { offered_at: new Date(before).toISOString() };
      warn(host, facts, 'a mail host that used to offer TLS took mail without it');
    },
  };
}
