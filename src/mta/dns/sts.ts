/**
 * The MTA-STS policies of recipient domains (RFC 8461): looked for in DNS, fetched, kept in memory and in the database as long as
 * they are good, fetched again when their record changes and once a day. A policy that is known is used at once, and mail never
 * waits for its refresh; it holds when DNS or the web server fail, so that blocking them does not switch it off (section 5.1).
 */
import https from 'node:https';
import type { Socket } from 'node:net';
import { connect, rootCertificates } from 'node:tls';
import { createBatchLoader } from '../../base/batch-loader.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { createLru } from '../../base/lru.ts';
import { DAY_MS, MINUTE_MS } from '../../base/time.ts';
import { readStsPolicy, readStsRecord, type StsFault, type StsPolicy } from '../../mail/sts-policy.ts';
import { connectFirst } from '../connection/connect.ts';
import { checkAlternativeNames } from '../connection/tls.ts';
import { isPublicAddress } from '../../net/ip.ts';
import type { Resolver } from '../../net/resolver.ts';
import { limitAnswers } from '../../net/safe-fetch.ts';
import type { Database } from '../../storage/database.ts';
import { statement } from '../../storage/sql.ts';
import type { StsPolicyRow } from '../../storage/tables.ts';

export interface StsPolicies {
  /** Returns the policy in force, or null; `fault` says why one that is or may be announced could not be had. Rejects only for faults of ours. */
  find(domain: string): Promise<{ policy: StsPolicy | null; fault: StsFault | null }>;
}

interface Known {
  id: string;
  policy: StsPolicy;
  fetchedAt: number;
  expiresAt: number;
}

const MOST_DOMAINS = 20_000;
const REFRESH_MS = DAY_MS;
/** After a fetch that failed, RFC 8461 section 3.3 asks for a pause. */
const PAUSE_MS = 5 * MINUTE_MS;

const policiesOf = statement(
  ({ listed }) => `SELECT p.* FROM ${listed('w', 'text')} JOIN sts_policies p ON p.domain = w.value`,
);

export function createStsPolicies(deps: {
  db: Pick<Database, 'prepared' | 'commit'>;
  clock: Clock;
  log: Log;
  resolver: Pick<Resolver, 'txt'>;
  fetch: StsFetch;
  changed?: (domain: string) => void;
}): StsPolicies {
  const { db, clock, log } = deps;
  const known = createLru<string, { row: Known | null }>(MOST_DOMAINS);
  const failed = createLru<string, { at: number; fault: StsFault }>(MOST_DOMAINS);
  const asking = new Map<string, ReturnType<StsPolicies['find']>>();
  /** When the queue is found after a start, thousands of domains are asked for at once: a query for each would hold up all other reads. */
  const policies = createBatchLoader<StsPolicyRow>(async (domains) => {
    const rows = await db.prepared.all<StsPolicyRow>(policiesOf, [JSON.stringify(domains)]);
    return new Map(rows.map((row) => [row.domain, row]));
  });

  async function stored(domain: string): Promise<Known | null> {
    const cached = known.get(domain);
    if (cached !== undefined) return cached.row;
    const row = await policies.load(domain);
    const found = row === undefined ? null : fromRow(row);
    known.set(domain, { row: found });
    return found;
  }

  /** Asks DNS, and fetches the policy if that is needed. */
  async function look(domain: string, valid: Known | null): ReturnType<StsPolicies['find']> {
    const answer = await deps.resolver.txt(`_mta-sts.${domain}`);
    const now = clock.now();
    if (answer.kind === 'trouble') return inForce(valid, 'not-known');
    const id = answer.kind === 'found' ? readStsRecord(answer.records) : null;
    if (id === null) return inForce(valid, null);
    const isFresh = valid?.id === id && now - valid.fetchedAt < REFRESH_MS;
    const isPaused = now - (failed.get(domain)?.at ?? -Infinity) < PAUSE_MS;
    const newest = isFresh || isPaused ? valid : ((await fetchPolicy(domain, id)) ?? valid);
    if (valid !== null && newest !== null && !isSame(valid.policy, newest.policy)) deps.changed?.(domain);
    return inForce(newest, failed.get(domain)?.fault ?? null);
  }

  /** Shares one look-up at a time for each domain. */
  function asked(domain: string, valid: Known | null): ReturnType<StsPolicies['find']> {
    let question = asking.get(domain);
    if (question === undefined) {
      question = look(domain, valid).finally(() => asking.delete(domain));
      asking.set(domain, question);
    }
    return question;
  }

  async function fetchPolicy(domain: string, id: string): Promise<Known | null> {
    const fetched = await deps.fetch(domain);
    const read = fetched.kind === 'text' ? readStsPolicy(fetched.text) : { kind: 'bad' as const, why: fetched.why };
    const now = clock.now();
    if (read.kind === 'bad') {
      failed.set(domain, { at: now, fault: faultOf(fetched) });
      log.warn({ event: 'sts_policy_failed', domain, reason: read.why }, 'an MTA-STS policy could not be had');
      return null;
    }
    const { policy } = read;
    const fresh: Known = { id, policy, fetchedAt: now, expiresAt: now + policy.maxAge * 1000 };
    failed.delete(domain);
    known.set(domain, { row: fresh });
    await store(domain, fresh);
    log.info({ event: 'sts_policy', domain, mode: policy.mode, mx: policy.mx }, 'an MTA-STS policy was fetched');
    return fresh;
  }

  async function store(domain: string, { id, policy, fetchedAt, expiresAt }: Known): Promise<void> {
    const writing = db.commit.transact((tx) =>
      tx.run(
        `INSERT INTO sts_policies (domain, policy_id, policy_json, fetched_at, expires_at) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (domain) DO UPDATE SET policy_id = excluded.policy_id, policy_json = excluded.policy_json,
           fetched_at = excluded.fetched_at, expires_at = excluded.expires_at`,
        [domain, id, JSON.stringify(policy), fetchedAt, expiresAt],
      ),
    );
    // It is in force all the same; after a restart it is fetched again.
    await writing.catch((err: unknown) => {
      log.error({ event: 'storage_failed', err }, 'an MTA-STS policy could not be written');
    });
  }

  return {
    async find(domain) {
      const before = await stored(domain);
      const valid = before !== null && before.expiresAt > clock.now() ? before : null;
      const answer = asked(domain, valid);
      if (valid === null) return await answer;
      answer.catch((error: unknown) =>
        log.error({ event: 'storage_failed', err: error, domain }, 'an MTA-STS policy could not be refreshed'),
      );
      return inForce(valid, null);
    },
  };
}

const isSame = (one: StsPolicy, other: StsPolicy): boolean =>
  one.mode === other.mode && one.mx.join() === other.mx.join();

/** Mode `none` is the domain's way to take a policy back. */
const inForce = (known: Known | null, fault: StsFault | null): Awaited<ReturnType<StsPolicies['find']>> =>
  known === null
    ? { policy: null, fault }
    : { policy: known.policy.mode === 'none' ? null : known.policy, fault: null };

function faultOf(fetched: StsFetched): StsFault {
  if (fetched.kind === 'text') return 'sts-policy-invalid';
  if (fetched.isUnknown === true) return 'not-known';
  return fetched.isUntrusted === true ? 'sts-webpki-invalid' : 'sts-policy-fetch-error';
}

const fromRow = (row: StsPolicyRow): Known => ({
  id: row.policy_id,
  policy: JSON.parse(row.policy_json) as StsPolicy,
  fetchedAt: row.fetched_at,
  expiresAt: row.expires_at,
});

export type StsFetched =
  | { kind: 'text'; text: string }
  /** `isUntrusted`: the certificate is at fault. `isUnknown`: our DNS gave no answer. `isAnswer`: the web server has answered, and has no policy. */
  | { kind: 'failed'; why: string; isUntrusted?: true; isUnknown?: true; isAnswer?: true };
export type StsFetch = (domain: string) => Promise<StsFetched>;

const CONNECT_MS = 10_000;
const HEAD_START_MS = 1_000;
/** The limit of the answer from the connection on, in ms; half of what is left for an address with others behind it. */
const ANSWER_MS = 20_000;
const MOST_ADDRESSES = 4;
/** The size of a policy (RFC 8461 section 3.3). A larger one that ends is not cut off by the limit of what comes, which looks between turns. */
const LARGEST_BYTES = 65_536;

export interface StsFetchOptions {
  allowPrivate: boolean;
  /** 443 except in tests. */
  port?: number;
  /** PEM certificates to trust in addition to the usual ones. */
  ca?: string;
}

export function createStsFetch(
  { clock, resolver }: { clock: Clock; resolver: Pick<Resolver, 'a' | 'aaaa'> },
  { allowPrivate, port = 443, ca }: StsFetchOptions,
): StsFetch {
  return async (domain) => {
    const host = `mta-sts.${domain}`;
    const answers = await Promise.all([resolver.aaaa(host), resolver.a(host)]);
    const addresses = answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : []));
    const trouble = answers.find((answer) => answer.kind === 'trouble');
    if (addresses.length === 0 && trouble !== undefined)
      return { ...failed(`${host}: ${trouble.text}`), isUnknown: true };
    if (addresses.length === 0) return failed(`${host} has no address`);
    const ips = addresses.filter((ip) => allowPrivate || isPublicAddress(ip));
    if (ips.length === 0) return failed(`${host} has no public address`);
    return await fromFirst(ips.slice(0, MOST_ADDRESSES), host);
  };

  /** Asks one address after the other until one answers: behind an address that takes connections there may be no web server. */
  async function fromFirst(all: readonly string[], host: string): Promise<StsFetched> {
    let ips = all;
    let untrusted: StsFetched | null = null;
    let answerMs = ANSWER_MS;
    for (;;) {
      const connected = await connectFirst({ clock }, { ips, port, timeoutMs: CONNECT_MS, headStartMs: HEAD_START_MS });
      if (connected.kind === 'failed') return untrusted ?? failed(connected.text);
      ips = ips.filter((ip) => ip !== connected.ip);
      if (ips.length > 0) answerMs /= 2;
      const fetched = await get({ clock }, connected.socket, host, { ca, answerMs });
      if (fetched.kind === 'text' || fetched.isAnswer === true) return fetched;
      if (fetched.isUntrusted === true) untrusted ??= fetched;
      if (ips.length === 0) return untrusted ?? fetched;
    }
  }
}

function get(
  { clock }: { clock: Clock },
  raw: Socket,
  host: string,
  { ca, answerMs }: { ca: string | undefined; answerMs: number },
): Promise<StsFetched> {
  return new Promise((resolve) => {
    const socket = connect({
      socket: raw,
      servername: host,
      minVersion: 'TLSv1.2',
      checkServerIdentity: checkAlternativeNames,
      ...(ca === undefined ? {} : { ca: [...rootCertificates, ca] }),
    });
    socket.once('secureConnect', () => limitAnswers(socket, raw));
    const request = https.request({
      host,
      path: '/.well-known/mta-sts.txt',
      headers: { host, accept: 'text/plain', 'user-agent': 'posthorn' },
      createConnection: () => socket,
    });
    const end = (result: StsFetched): void => {
      timer.cancel();
      resolve(result);
      request.destroy();
      socket.destroy();
      raw.destroy();
    };
    const timer = clock.after(answerMs, () => end(failed(`no policy within ${String(answerMs / 1000)} s`)));
    request.on('error', (error) =>
      end(isCertificateFault(error) ? { ...failed(error.message), isUntrusted: true } : failed(error.message)),
    );
    request.on('response', (response) => {
      if (response.statusCode !== 200) {
        end({ ...failed(`the answer was ${String(response.statusCode)}`), isAnswer: true });
        return;
      }
      if (!/^text\/plain\b/i.test(response.headers['content-type'] ?? '')) {
        end({ ...failed('the answer is not text/plain'), isAnswer: true });
        return;
      }
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', (error) => end(failed(error.message)));
      response.on('end', () => {
        const body = Buffer.concat(parts);
        end(
          body.length > LARGEST_BYTES
            ? { ...failed(`it has more than ${String(LARGEST_BYTES)} bytes`), isAnswer: true }
            : { kind: 'text', text: body.toString('utf8') },
        );
      });
    });
    request.end();
  });
}

/** Returns whether the error is of OpenSSL's verification, or of the comparison of names. */
const isCertificateFault = (error: Error & { code?: string }): boolean =>
  /^(?:CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_CERT_ALTNAME)/.test(error.code ?? '');

const failed = (why: string): Extract<StsFetched, { kind: 'failed' }> => ({ kind: 'failed', why });
