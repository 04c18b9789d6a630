/**
 * Pages with a secret that is shown once: a new key, the secret of a webhook, recovery codes, a set-up link. The form that makes the secret
 * redirects to such a page, so that a reload does not make another. The pages are in memory only, for the session that made them,
 * for a short time, and are gone when they were shown.
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
}

export type ShownOnce = ReturnType<typeof createShownOnce>;

export function createShownOnce({ clock }: { clock: Clock }) {
  const pages = new Map<string, Kept>();

  function dropOld(): void {
    const now = clock.now();
    for (const [token, { until }] of pages) if (until <= now) pages.delete(token);
  }

  return {
    /** Keeps a page and returns its token. The oldest page gives way when there are too many. */
    keep(sessionId: string, page: View): string {
      dropOld();
      const own = [...pages].filter(([, one]) => one.sessionId === sessionId);
      const [oldest] = own.length >= MOST_OF_SESSION ? own : pages.size >= MOST ? pages : [];
      if (oldest !== undefined) pages.delete(oldest[0]);
      const token = randomBytes(16).toString('base64url');
      pages.set(token, { sessionId, page, until: clock.now() + KEPT_MS });
      return token;
    },
    /** Returns the page and forgets it; null where this session has none with this token. */
    take(sessionId: string, token: string): View | null {
      dropOld();
      const kept = pages.get(token);
      if (kept?.sessionId !== sessionId) return null;
      pages.delete(token);
      return kept.page;
    },
  };
}
