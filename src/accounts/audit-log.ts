/**
 * The audit log: one line for every use of a key. What writes or is refused has its line committed before the answer;
 * reads are so many and so quick that their lines go together, at most LATER_MS late, as do those of 503.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import type { AuditRow, RequestDetailsRow } from '../storage/tables.ts';

const LATER_MS = 100;
const MOST_WAITING = 1000;
/** While the database cannot be written, lines are kept up to this many: about 25 MB. */
const MOST_KEPT = 50_000;
const RETRY_MS = 1000;
const BYTES_A_ROW = 300;

/** `report` hears of each failure to write and how many lines were given up for it: 0 as long as they fit into memory. */
export function createAuditLog(deps: {
  db: Pick<Database, 'commit'>;
  clock: Clock;
  report: (error: unknown, lost: number) => void;
}) {
  const { db, clock, report } = deps;
  let waiting: AuditRow[] = [];
  let details: RequestDetailsRow[] = [];
  let timer: Timer | null = null;
  /** After a failure the timer alone tries again: each new line would otherwise start a commit that fails too. */
  let failing = false;
  const writing = new Set<Promise<void>>();

  function insert(rows: readonly AuditRow[], more: readonly RequestDetailsRow[]): Promise<void> {
    const bytes = more.reduce((sum, { body }) => sum + (body?.length ?? 0), BYTES_A_ROW * (rows.length + more.length));
    return db.commit.insert({ audit: rows, request_details: more }, bytes);
  }

  function disarm(): void {
    timer?.cancel();
    timer = null;
  }

  function flush(): void {
    disarm();
    if (waiting.length + details.length === 0) return;
    const [rows, more] = taken();
    const done = insert(rows, more).then(
      () => {
        failing = false;
      },
      (error: unknown) => {
        keep(rows, error);
      },
    );
    writing.add(done);
    void done.finally(() => writing.delete(done));
  }

  function taken(): [AuditRow[], RequestDetailsRow[]] {
    const both: [AuditRow[], RequestDetailsRow[]] = [waiting, details];
    [waiting, details] = [[], []];
    return both;
  }

  function arm(): void {
    if (waiting.length + details.length >= MOST_WAITING && !failing) flush();
    else timer ??= clock.after(failing ? RETRY_MS : LATER_MS, flush, { background: true });
  }

  function note(row: RequestDetailsRow | null): void {
    if (row !== null && !failing) details.push(row);
  }

  function keep(rows: AuditRow[], error: unknown): void {
    failing = true;
    waiting = [...rows, ...waiting];
    timer ??= clock.after(RETRY_MS, flush, { background: true });
    report(error, dropOverflow());
  }

  /** Makes room in steps, so that a long failure is reported now and then and not for each line. */
  function dropOverflow(): number {
    return waiting.length > MOST_KEPT ? waiting.splice(0, waiting.length - MOST_KEPT + MOST_WAITING).length : 0;
  }

  return {
    /** Resolves when the line is durable. Lines of one moment share a commit. */
    write: (row: AuditRow, more: RequestDetailsRow | null = null): Promise<void> =>
      insert([row], more === null ? [] : [more]),
    /** Takes details whose line was written elsewhere. Unlike lines, details are given up while the database fails. */
    note(more: RequestDetailsRow): void {
      note(more);
      arm();
    },
    /** Takes a line that is written within LATER_MS, or sooner when many wait. */
    later(row: AuditRow, more: RequestDetailsRow | null = null): void {
      waiting.push(row);
      note(more);
      arm();
      const lost = dropOverflow();
      if (lost > 0) report(new Error('more audit lines wait for the database than memory should hold'), lost);
    },
    /** Writes what was taken so far, and resolves when that is done or has failed: then lines wait on, and details are given up. */
    async settled(): Promise<void> {
      flush();
      await Promise.all(writing);
    },
    async close(): Promise<void> {
      disarm();
      await Promise.all(writing);
      // Set again by what failed meanwhile.
      disarm();
      const [rows, more] = taken();
      if (rows.length + more.length === 0) return;
      await insert(rows, more).catch((error: unknown) => {
        report(error, rows.length);
      });
    },
  };
}

export type AuditLog = ReturnType<typeof createAuditLog>;
