/**
 * Pages with a secret that is shown once: a new key, the secret of a webhook, recovery codes, a set-up link. The form that makes the secret
 * redirects to such a page, so that a reload does not make another. The pages are in memory, for the session that made them,
 * for a short time, and are shown once: a second send of the same form alone shows one again, since a browser may have dropped the
 * answer to the first (a double click). If there are other nodes, the database has a page too, sealed, until it is shown: a balancer may lead
 * the redirect to another node.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import { recordKey, type IdempotencyStore } from '../storage/idempotency-store.ts';
import type { View } from './page.ts';

const PURPOSE = 'page shown once';
const KEPT_MS = 60_000;
/** Pages of one session, so that none can push out those of others, and of all. */
const MOST_OF_SESSION = 5;
const MOST = 1000;

interface Kept {
  sessionId: string;
  page: View;
  until: number;
  isShown: boolean;
}

export type ShownOnce = ReturnType<typeof createShownOnce>;

export interface ShownOnceDeps {
  clock: Clock;
  keyring: Pick<Keyring, 'seal' | 'open'>;
  store: Pick<IdempotencyStore, 'find' | 'insert' | 'release'>;
  /** Returns whether other nodes serve the dashboard too. */
  hasOthers: () => boolean;
}

export function createShownOnce({ clock, keyring, store, hasOthers }: ShownOnceDeps) {
  const pages = new Map<string, Kept>();

  function dropOld(): void {
    const now = clock.now();
    for (const [token, { until }] of pages) if (until <= now) pages.delete(token);
  }

  function find(sessionId: string, token: string): Kept | undefined {
    dropOld();
    const kept = pages.get(token);
    return kept?.sessionId === sessionId ? kept : undefined;
  }

  const rowKey = (sessionId: string, token: string): string =>
    recordKey(sessionId, 'dashboard', 'GET', '/shown', token);

  async function leaveForOthers(sessionId: string, token: string, page: View): Promise<void> {
    const now = clock.now();
    await store.insert({
      key: rowKey(sessionId, token),
      body_hash: '',
      status: 200,
      headers_json: '{}',
      body: keyring.seal(PURPOSE, JSON.stringify(page)),
      created_at: now,
      expires_at: now + KEPT_MS,
      key_id: null,
    });
  }

  /** Takes a page that another node has made. */
  async function takeOfOthers(sessionId: string, token: string): Promise<View | null> {
    const key = rowKey(sessionId, token);
    const row = await store.find(key);
    if (row === null) return null;
    await store.release(key);
    return JSON.parse(keyring.open(PURPOSE, row.body).toString('utf8')) as View;
  }

  return {
    /** Keeps a page and returns its token. When there are too many, one that was shown gives way, otherwise the oldest. */
    async keep(sessionId: string, page: View): Promise<string> {
      dropOld();
      const own = [...pages].filter(([, one]) => one.sessionId === sessionId);
      const full = own.length >= MOST_OF_SESSION ? own : pages.size >= MOST ? [...pages] : [];
      const giving = full.find(([, { isShown }]) => isShown) ?? full[0];
      if (giving !== undefined) pages.delete(giving[0]);
      const token = randomBytes(16).toString('base64url');
      pages.set(token, { sessionId, page, until: clock.now() + KEPT_MS, isShown: false });
      if (hasOthers()) await leaveForOthers(sessionId, token, page);
      return token;
    },
    /** Returns the page the first time; null later, and if this session has none with this token. */
    async take(sessionId: string, token: string): Promise<View | null> {
      const kept = find(sessionId, token);
      if (kept === undefined) return hasOthers() ? await takeOfOthers(sessionId, token) : null;
      if (kept.isShown) return null;
      kept.isShown = true;
      if (hasOthers()) await store.release(rowKey(sessionId, token));
      return kept.page;
    },
    /** Lets a page that was shown be shown once more, as long as it is kept. */
    showAgain(sessionId: string, token: string): void {
      const kept = find(sessionId, token);
      if (kept !== undefined) kept.isShown = false;
    },
  };
}
