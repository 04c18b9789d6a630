/**
 * The committers of a server on PostgreSQL, each with a connection: what requests wait for, what the engine writes, and a desk for single
 * pieces of work. So an answer never waits until it is the engine's turn to number events, and neither waits for a long piece of work.
 */
import type { Committer, CommitStats, Work } from '../commit.ts';

export interface Committers {
  intake: Committer;
  engine: Committer;
  /** Each piece of work runs alone in its transaction, which is serializable: it was written for a database with one writer. */
  desk: Committer;
}

/** Returns a committer that routes each piece of work to the committer of its kind. */
export function joinCommitters({ intake, engine, desk }: Committers): Committer {
  const all = [intake, engine, desk];
  const sum = (of: (one: Committer) => number): number => all.reduce((total, one) => total + of(one), 0);
  return {
    submit: <Input, Output, Read>(work: Work<Input, Output, Read>, input: Input, bytes?: number): Promise<Output> =>
      (work.isIntake === true ? intake : engine).submit(work, input, bytes),
    insert: (rows, bytes) => intake.insert(rows, bytes),
    transact: (run) => desk.transact(run),
    get waiting() {
      return sum(({ waiting }) => waiting);
    },
    /** The trouble of any committer: on a full disk one may still find room in pages that exist, and another may not. */
    get trouble() {
      return intake.trouble ?? desk.trouble ?? engine.trouble;
    },
    async retry(): Promise<void> {
      await Promise.all(all.map((one) => one.retry()));
    },
    get stats(): CommitStats {
      return {
        groups: sum(({ stats }) => stats.groups),
        units: sum(({ stats }) => stats.units),
        largestGroup: Math.max(...all.map(({ stats }) => stats.largestGroup)),
        failedUnits: sum(({ stats }) => stats.failedUnits),
      };
    },
    async close(): Promise<void> {
      await Promise.all(all.map((one) => one.close()));
    },
  };
}
