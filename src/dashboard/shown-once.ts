/**
 * Pages with a secret that is shown once: a new key, the secret of a webhook, recovery codes, a set-up link. The form that makes the secret
 * redirects to such a page, so that a reload does not make another. The pages are in memory only, for the session that made them,
 * for a short time, and are shown once: a second send of the same form alone shows one again, since a browser may have dropped the
 * answer to the first (a double click).
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import type { View } from './page.ts';

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

export function createShownOnce({ clock }: { clock: Clock }) {
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

  return {
    /** Keeps a page and returns its token. When there are too many, one that was shown gives way, otherwise the oldest. */
    keep(sessionId: string, page: View): string {
      dropOld();
      const own = [...pages].filter(([, one]) => one.sessionId === sessionId);
      const full = own.length >= MOST_OF_SESSION ? own : pages.size >= MOST ? [...pages] : [];
      const giving = full.find(([, { isShown }]) => isShown) ?? full[0];
      if (giving !== undefined) pages.delete(giving[0]);
      const token = randomBytes(16).toString('base64url');
      pages.set(token, { sessionId, page, until: clock.now() + KEPT_MS, isShown: false });
      return token;
    },
    /** Returns the page the first time; null later, and where this session has none with this token. */
    take(sessionId: string, token: string): View | null {
      const kept = find(sessionId, token);
      if (kept === undefined || kept.isShown) return null;
      kept.isShown = true;
      return kept.page;
    },
    /** Lets a page that was shown be shown once more, as long as it is kept. */
    showAgain(sessionId: string, token: string): void {
      const kept = find(sessionId, token);
      if (kept !== undefined) kept.isShown = false;
    },
  };
}
