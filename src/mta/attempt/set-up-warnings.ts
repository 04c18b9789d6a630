/**
 * Refusals that are about our own set-up (a block list, a missing PTR record, a signature that does not verify) bounce mail
 * of customers who can do nothing about it. The log warns the operator, once for each lane and rule in ten minutes.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';

const QUIET_MS = 10 * 60_000;
const MOST_REMEMBERED = 1_000;

export interface SetUpWarnings {
  note(lane: string, outcome: Outcome): void;
}

export function createSetUpWarnings({ clock, log }: { clock: Clock; log: Log }): SetUpWarnings {
  const logged = new LRUCache<string, { at: number; since: number }>({ max: MOST_REMEMBERED });
  return {
    note(lane, outcome) {
      if ((outcome.kind !== 'refused' && outcome.kind !== 'deferred') || outcome.grounds?.infrastructure !== true)
        return;
      const { facts, verdict, grounds } = outcome;
      const key = `${lane} ${grounds.rule}`;
      const before = logged.get(key);
      if (before !== undefined && clock.now() - before.at < QUIET_MS) {
        before.since++;
        return;
      }
      logged.set(key, { at: clock.now(), since: 0 });
      log.warn(
        {
          event: 'infrastructure_bounce',
          lane,
          host: facts.mx,
          source: facts.source,
          code: facts.smtpCode,
          enhanced: facts.enhancedCode,
          text: facts.smtpReply,
          reason: verdict.reason,
          rule: grounds.rule,
          unreported: before?.since ?? 0,
        },
        'mail is refused for reasons of our own set-up',
      );
    },
  };
}
