/**
 * Counts TLS sessions with mail hosts for the reports of RFC 8460: in memory, and once a minute in the database, where the counts of all
 * nodes add up. A crash loses a minute of counts; a mail costs no write.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { dayOf } from '../../base/time.ts';
import type { Committer } from '../../storage/commit.ts';
import type { TlsPolicyRow, TlsSessionRow } from '../../storage/tables.ts';
import { tlsFindings, type TlsFinding, type TlsSeen } from './tls-seen.ts';

export type TlsTally = ReturnType<typeof createTlsTally>;

const EVERY_MS = 60_000;
/** Different results in memory; more are written at once. */
const MOST_KINDS = 5_000;
/** Characters of a reason that are kept; a host must not fill the table with long texts. */
const LONGEST_REASON = 200;

export function createTlsTally(deps: { db: { commit: Committer }; clock: Clock; log: Log }) {
  const { db, clock, log } = deps;
  let sessions = new Map<string, TlsSessionRow>();
  let policies = new Map<string, TlsPolicyRow>();
  let timer: Timer | null = null;
  let writing: Promise<void> = Promise.resolve();

  function flush(): void {
    timer?.cancel();
    timer = null;
    if (sessions.size === 0) return;
    const rows = { tls_sessions: [...sessions.values()], tls_policies: [...policies.values()] };
    sessions = new Map();
    policies = new Map();
    writing = Promise.all([writing, db.commit.insert(rows)]).then(
      () => undefined,
      (error: unknown) =>
        log.error({ event: 'storage_failed', err: error }, 'counts of TLS sessions could not be written'),
    );
  }

  function count(found: TlsFinding): void {
    const day = dayOf(clock.now());
    const { domain, policy, base, failure } = found;
    const { mx, ip, localIp: local_ip } = failure === null ? nowhere : found;
    const [result, reason] = failure === null ? ['', ''] : [failure.result, failure.reason.slice(0, LONGEST_REASON)];
    const key = [day, domain, policy, base, result, mx, ip, local_ip, reason].join(' ');
    const row = sessions.get(key);
    if (row === undefined)
      sessions.set(key, { day, domain, policy, base, result, mx, ip, local_ip, reason, sessions: 1 });
    else row.sessions++;
    policies.set([day, domain, policy, base].join(' '), {
      day,
      domain,
      policy,
      base,
      strings_json: JSON.stringify(found.strings),
      mx_json: JSON.stringify(found.mxHosts),
    });
    if (sessions.size >= MOST_KINDS) flush();
    else timer ??= clock.after(EVERY_MS, flush, { background: true });
  }

  return {
    /** Counts the findings of a connection. May be passed on as a function. */
    note(seen: TlsSeen): void {
      for (const found of tlsFindings(seen)) count(found);
    },
    /** Writes the counts that are not written. */
    async stop(): Promise<void> {
      flush();
      await writing;
    },
  };
}

const nowhere = { mx: '', ip: '', localIp: '' };
