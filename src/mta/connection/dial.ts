/** Dials addresses until a session is open (RFC 5321 section 5.1). Broken TLS steps down if allowed: reduced hello, legacy one, plaintext. */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { createLru } from '../../base/lru.ts';
import { DAY_MS, MINUTE_MS } from '../../base/time.ts';
import { openSession, type OpenDeps, type OpenResult, type SessionTarget } from './open-session.ts';
import { needKey, type TlsNeed } from './tls-policy.ts';
import type { Hello } from './tls.ts';
import type { Database } from '../../storage/database.ts';
import type { HostTlsRow } from '../../storage/tables.ts';

/** The hello that a host needs if the ordinary one failed; `none` means plaintext. */
export type Workaround = Hello | 'none';

/** The workarounds of hosts, by `host:port`. Bounded: the oldest are forgotten first. */
export interface TlsMemory {
  get(host: string, now: number): Workaround;
  set(host: string, workaround: Workaround, now: number): void;
  /** Is called when every handshake with the host broke, and mail goes to it in plaintext. */
  downgraded?(host: string, reason: string): void;
}

/** How long plaintext is remembered, in ms: an attacker who breaks two handshakes must not get days of it. */
const PLAINTEXT_MS = 15 * MINUTE_MS;
/** How long a hello that works is remembered, in ms: it protects the mail, so the ordinary one is tried again only later. */
export const HELLO_MS = DAY_MS;
const MAX_HOSTS = 10_000;

export function createTlsMemory(): TlsMemory {
  const hosts = createLru<string, { workaround: Workaround; until: number }>(MAX_HOSTS);
  return {
    get(host, now) {
      const entry = hosts.peek(host);
      return entry !== undefined && entry.until > now ? entry.workaround : 'full';
    },
    set(host, workaround, now) {
      if (workaround === 'full') hosts.delete(host);
      else hosts.set(host, { workaround, until: now + (workaround === 'none' ? PLAINTEXT_MS : HELLO_MS) });
    },
  };
}

export type DialTarget = Omit<SessionTarget, 'hello'>;

/** Addresses of a host that are tried in one dial: it may have many that take a connection and then fail. */
const MOST_ADDRESSES = 4;

/**
 * Opens a session to one of the host's addresses. If one takes the connection and then gives no session, for it hangs up, stays silent or
 * breaks TLS, the next is tried. A refusal in words is the host's answer: one for the number of connections must not be multiplied.
 */
export async function dial(deps: OpenDeps & { memory: TlsMemory }, target: DialTarget): Promise<OpenResult> {
  const { signal, deadline = Infinity } = target;
  let { ips } = target;
  for (let left = MOST_ADDRESSES; ; left--) {
    const hasOthers = left > 1 && ips.length > 1;
    const otherHostsRemain = target.otherHostsRemain || hasOthers;
    const result = await dialOne(deps, { ...target, ips, otherHostsRemain });
    if (isAnswer(result) || signal?.aborted === true || deps.clock.monotonic() >= deadline) return result;
    deps.addresses?.failed(result.ip, deps.clock.monotonic());
    if (!hasOthers) return result;
    ips = othersThan(result.ip, ips);
  }
}

/** Returns whether the result holds for the host, whatever its address. If no address took a connection there is none left to try. */
const isAnswer = (result: OpenResult): boolean =>
  result.kind === 'open' || result.reply !== null || result.ours === true || result.phase === 'connect';

/** Returns the addresses behind this one, and then those before it, which took no connection in time. */
function othersThan(ip: string, ips: readonly string[]): readonly string[] {
  const at = ips.indexOf(ip);
  return [...ips.slice(at + 1), ...ips.slice(0, at)];
}

/** Opens a session to the first of the addresses that takes a connection. */
async function dialOne(deps: OpenDeps & { memory: TlsMemory }, target: DialTarget): Promise<OpenResult> {
  const { memory, clock } = deps;
  const host = `${target.host}:${String(target.port)}`;
  const known = memory.get(host, clock.now());
  const failures: FailedTls[] = [];
  for (const step of steps(known, target.need)) {
    const last = failures.at(-1);
    if (last?.tlsUnanswered === true && step !== 'none') continue;
    // The address that answered is the one whose TLS is broken.
    const result = await openSession(
      deps,
      adapted({ ...target, ips: last === undefined ? target.ips : [last.ip] }, step),
    );
    if (result.kind === 'failed' && result.tlsBroken && target.signal?.aborted !== true) {
      failures.push(result);
      continue;
    }
    // It takes no connection any more: what is known of the address is that its TLS is broken.
    if (last !== undefined && result.kind === 'failed' && result.phase === 'connect' && result.ours !== true)
      return last;
    // Only an open session shows that the step was needed and helped.
    if (result.kind === 'open' && failures.length > 0) learn(memory, host, step, failures, clock.now());
    return result;
  }
  const last = failures.at(-1);
  if (last === undefined) throw new Error('there is at least one step');
  // Only plaintext is left, which the policy forbids.
  return { ...last, tlsUnsatisfied: true };
}

type FailedTls = Extract<OpenResult, { kind: 'failed' }>;

/** Remembers the step; of connections that were only cut, as an attacker can do, only a reduced hello, which protects as much as the usual one. */
function learn(memory: TlsMemory, host: string, step: Workaround, failures: readonly FailedTls[], now: number): void {
  const wereOnlyCut = failures.every(({ tlsCut }) => tlsCut === true);
  if (step === 'none') memory.downgraded?.(host, failures[0]?.text ?? '');
  memory.set(host, wereOnlyCut && step !== 'reduced' ? 'full' : step, now);
}

const HELLOS: readonly Hello[] = ['full', 'reduced', 'legacy'];

/** Returns the steps to try, beginning with a hello that worked. A policy that demands TLS allows neither old TLS nor plaintext. */
function steps(known: Workaround, { mode }: TlsNeed): readonly Workaround[] {
  if (mode === 'none' || (mode === 'opportunistic' && known === 'none')) return ['none'];
  const allowed = mode === 'opportunistic' ? HELLOS : HELLOS.filter((hello) => hello !== 'legacy');
  const hellos = [...allowed.filter((hello) => hello === known), ...allowed.filter((hello) => hello !== known)];
  return mode === 'opportunistic' ? [...hellos, 'none'] : hellos;
}

function adapted(target: SessionTarget, step: Workaround): SessionTarget {
  if (step === 'none') return { ...target, need: { ...target.need, mode: 'none' } };
  return { ...target, hello: step };
}

/** Returns the pool key of a connection: a message may use the connection of another one with an equal key. */
export function connectionKey(
  target: Pick<DialTarget, 'host' | 'port' | 'localAddresses' | 'need' | 'ehlo' | 'auth'>,
): string {
  const { host, port, localAddresses = [], need, ehlo, auth } = target;
  return [`${host}:${String(port)}`, localAddresses.join(), ehlo, needKey(need), auth?.user ?? ''].join('|');
}

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
