/** Figures counted in memory, since no table has them: requests, attempts by phase, event-loop lag. A restart begins at 0, as Prometheus expects. */
import { budgetNames, type BudgetName } from '../../base/budgets.ts';
import { counter, histogram, Counts, Histogram, type Family, type Bucket } from './exposition.ts';
import type { Clock, Timer } from '../../base/clock.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { Database } from '../../storage/database.ts';

interface Answered {
  /** `operationId` of its route, or null if there is no such path. */
  operation: string | null;
  status: number;
  ms: number;
}

/** The message is on disk before a 202, so this is the time that clients wait for. */
const ACCEPT = 'sendMessage';
const ACCEPT_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
/** The range is from a warm connection in the same rack to a host that takes five minutes to answer. */
const PHASE_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const PHASES = ['connect', 'banner', 'tls', 'mail', 'rcpt', 'data', 'dot'];
const OUTCOMES = ['accepted', 'deferred', 'refused', 'uncertain', 'failed', 'simulated', 'discarded'];
/** Mail to these meets no host, whatever its sender is told: it says nothing about whether mail arrives. */
const WITHOUT_HOST: Readonly<Record<string, string>> = { simulator: 'simulated', discard: 'discarded' };
const LAG_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];
/** Ten samples a second show a blocked event loop, at a negligible cost. */
const LAG_EVERY_MS = 100;

export type Meters = ReturnType<typeof createMeters>;

/** `clock` must be the system's, since the delay of the real event loop is measured. */
export function createMeters({ clock }: { clock: Clock }) {
  const requests = new Counts();
  const attempts = new Counts(OUTCOMES.map((outcome) => ({ outcome })));
  /** Providers are those of the table of operators, sources those of the settings. */
  const refusals = new Counts();
  const submissions = new Counts([{ code: '250' }]);
  const usedUp = new Counts(budgetNames.map((budget) => ({ budget })));
  const accept = new Histogram(ACCEPT_SECONDS);
  const phases = new Map(PHASES.map((phase) => [phase, new Histogram(PHASE_SECONDS)]));
  const lag = new Histogram(LAG_SECONDS);
  let timer: Timer = wait();

  function wait(): Timer {
    const due = clock.monotonic() + LAG_EVERY_MS;
    return clock.after(
      LAG_EVERY_MS,
      () => {
        lag.observe(Math.max(0, clock.monotonic() - due) / 1000);
        timer = wait();
      },
      { background: true },
    );
  }

  return {
    /** Counts an attempt by its outcome and what the mail went to. */
    attempted(outcome: Outcome, { kind, operator }: { kind: string; operator?: { name: string } | null }): void {
      const { facts } = outcome;
      attempts.add({ outcome: WITHOUT_HOST[kind] ?? outcome.kind });
      if (outcome.kind === 'deferred' || outcome.kind === 'refused')
        refusals.add({
          provider: operator?.name ?? 'other',
          source: facts.source ?? 'system',
          outcome: outcome.kind,
          reason: outcome.verdict.reason,
        });
      for (const [phase, ms] of Object.entries(facts.timings)) {
        // 0 means that the phase was not needed or not reached.
        if (ms > 0) phases.get(phase)?.observe(ms / 1000);
      }
    },
    answered({ operation, status, ms }: Answered): void {
      requests.add({ operation: operation ?? 'none', code: String(status) });
      if (operation === ACCEPT && status === 202) accept.observe(ms / 1000);
    },
    /** Counts a submission by SMTP that ended with this code. */
    submitted(code: number): void {
      submissions.add({ code: String(code) });
    },
    /** Counts a client that was refused because a budget of strangers was used up. */
    usedUp(budget: BudgetName): void {
      usedUp.add({ budget });
    },
    accepted: () => accept.buckets(),
    families: (): Family[] => [
      counter(
        'posthorn_http_requests_total',
        'Requests answered, by operation of the API and status code.',
        requests.samples(),
      ),
      histogram(
        'posthorn_accept_seconds',
        'Time from the arrival of a send request to its 202, by which the mail is on disk.',
        accept.samples(),
      ),
      counter(
        'posthorn_attempts_total',
        'Delivery attempts by outcome; those of simulated mail, and of mail that a route discards, are apart.',
        attempts.samples(),
      ),
      counter(
        'posthorn_refusals_total',
        'Attempts that were deferred or refused, by provider, source and reason.',
        refusals.samples(),
      ),
      histogram(
        'posthorn_attempt_phase_seconds',
        'Time that each phase of an SMTP attempt took.',
        [...phases].flatMap(([phase, times]) => times.samples({ phase })),
      ),
      counter(
        'posthorn_submissions_total',
        'Submissions by SMTP by the code they ended with; 250 is a mail that was taken.',
        submissions.samples(),
      ),
      counter(
        'posthorn_budget_used_up_total',
        'How often a budget of those who have not signed in was used up, so that a client was refused; docs/security.md lists them.',
        usedUp.samples(),
      ),
      histogram(
        'posthorn_event_loop_lag_seconds',
        'How late the event loop was, looked at ten times a second.',
        lag.samples(),
      ),
    ],
    stop(): void {
      timer.cancel();
    },
  };
}

export interface Moment {
  /** Milliseconds since the epoch. */
  at: number;
  /** Recipients that are not finished. */
  waiting: number;
  /** Connections in use. */
  connections: number;
  /** Milliseconds within which half, 95 % and 99 % of the send requests of this minute were answered; null if there was none. */
  accept: { p50: number; p95: number; p99: number } | null;
}

interface HistoryDeps {
  db: Pick<Database, 'reader'>;
  clock: Clock;
  mta: { sizes(): { workers: number } };
  /** The times of acceptance since the start; null if they are not counted. */
  accepted: (() => readonly Bucket[]) | null;
  failed: (error: unknown) => void;
}

const EVERY_MS = 60_000;
const MOST = 24 * 60;

export type History = ReturnType<typeof createHistory>;

export function createHistory(deps: HistoryDeps) {
  const { clock } = deps;
  const moments: Moment[] = [];
  let before: readonly Bucket[] = [];
  let looking: Promise<void> | null = null;
  let timer = wait();

  function wait(): Timer {
    return clock.after(
      EVERY_MS,
      () => {
        // If the database is slow, samples are skipped: they would only queue up.
        looking ??= look()
          .catch(deps.failed)
          .finally(() => {
            looking = null;
          });
        timer = wait();
      },
      { background: true },
    );
  }

  async function look(): Promise<void> {
    const at = clock.now();
    const buckets = deps.accepted?.() ?? [];
    const accept = percentiles(since(before, buckets));
    before = buckets;
    const connections = deps.mta.sizes().workers;
    moments.push({ at, waiting: await waitingNow(deps), connections, accept });
    if (moments.length > MOST) moments.shift();
  }

  return {
    moments: (): readonly Moment[] => moments,
    stop(): void {
      timer.cancel();
    },
  };
}

/** Returns the waiting recipients: those that arrived less those that left, a sum over a few rows a day. */
async function waitingNow({ db }: Pick<HistoryDeps, 'db'>): Promise<number> {
  const waiting = ['scheduled', 'queued', 'sent', 'deferred'];
  const [row] = await db.reader.raw<{ n: number | null }[]>(
    `SELECT SUM(CASE WHEN to_status IN (?, ?, ?, ?) THEN n ELSE 0 END) - SUM(CASE WHEN from_status IN (?, ?, ?, ?) THEN n ELSE 0 END) AS n FROM counters`,
    [...waiting, ...waiting],
  );
  return Math.max(0, row?.n ?? 0);
}

/** Returns the counts that were added between two samples. */
const since = (before: readonly Bucket[], now: readonly Bucket[]): Bucket[] =>
  now.map(({ le, count }, at) => ({ le, count: count - (before[at]?.count ?? 0) }));

/** Interpolates between the bounds of the buckets; beyond the last bound it returns that bound. */
export function percentiles(buckets: readonly Bucket[]): Moment['accept'] {
  const total = buckets.at(-1)?.count ?? 0;
  if (total === 0) return null;
  const within = (part: number): number => {
    const wanted = part * total;
    const at = buckets.findIndex(({ count }) => count >= wanted);
    const [bucket, below] = [buckets[at], buckets[at - 1] ?? { le: 0, count: 0 }];
    if (bucket === undefined || bucket.le === Infinity) return round(below.le);
    const share = (wanted - below.count) / Math.max(1, bucket.count - below.count);
    return round(below.le + share * (bucket.le - below.le));
  };
  return { p50: within(0.5), p95: within(0.95), p99: within(0.99) };
}

const round = (seconds: number): number => Math.round(seconds * 10_000) / 10;
