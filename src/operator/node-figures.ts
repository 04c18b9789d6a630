/**
 * What a node alone has in memory, such as its lanes and sources, shown at every node. Each node writes its figures to the table `node_figures`
 * every two seconds, as far as they have changed; an operation reads its own node's figures from memory and those of the others from the table.
 * So figures of other nodes are up to two seconds old, or as old as `everyMs` says. A node without others writes nothing.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { groupBy } from '../base/sets.ts';
import { mapInSlices } from '../base/slices.ts';
import type { Database } from '../storage/database.ts';
import type { Nodes } from '../storage/nodes.ts';
import { rowsParameter } from '../storage/rows-parameter.ts';
import { statement } from '../storage/sql.ts';
import { text } from '../storage/table.ts';

/** Figures of one kind: an entry for each thing that they are about, which its key names. Values are JSON. */
export interface Figures<Needs, Value> {
  name: string;
  /** How often they are written. */
  everyMs: number;
  read(deps: Needs): Promise<readonly (readonly [key: string, value: Value])[]>;
}

export interface FiguresDeps {
  db: Pick<Database, 'prepared'>;
  nodes: Pick<Nodes, 'epoch' | 'name' | 'list' | 'hasOthers'>;
}

export interface NodeFigure<Value> {
  node: string;
  epoch: number;
  key: string;
  value: Value;
}

/** Returns the figures of all nodes, in the order in which `nodes list` has them; with `key` only those about this thing. */
export async function figuresOf<Needs, Value>(
  deps: FiguresDeps & NoInfer<Needs>,
  figures: Figures<Needs, Value>,
  key: string | null = null,
): Promise<NodeFigure<Value>[]> {
  const { nodes, db } = deps;
  const [own, rows] = await Promise.all([
    figures.read(deps),
    nodes.hasOthers
      ? db.prepared.all<{ epoch: number; key: string; value: string }>(
          'SELECT epoch, key, value FROM node_figures WHERE name = ? AND epoch <> ? AND (? = 0 OR key = ?) ORDER BY key',
          [figures.name, nodes.epoch, key === null ? 0 : 1, key ?? ''],
        )
      : [],
  ]);
  // The other node has the same declaration of the figures.
  const others = await mapInSlices(rows, (row) => ({ ...row, value: JSON.parse(row.value) as Value }));
  const byEpoch = groupBy(others, ({ epoch }) => epoch);
  return serversOf(nodes).flatMap(({ epoch, name: node }) =>
    epoch === nodes.epoch
      ? own.flatMap(([of, value]) => (key === null || key === of ? [{ node, epoch, key: of, value }] : []))
      : (byEpoch.get(epoch) ?? []).map((one) => ({ ...one, node })),
  );
}

export const serversOf = (nodes: Pick<Nodes, 'list'>) => nodes.list().filter(({ isCommand }) => !isCommand);

export const serverNames = (nodes: Pick<Nodes, 'list'>): string[] => serversOf(nodes).map(({ name }) => name);

const LOOK_MS = 2_000;
const MOST_ROWS = 500;
/** Longer ones are left out: they are written and parsed on the main loop. */
const MOST_CHARACTERS = 64 * 1024;

const fresh = rowsParameter({ name: text(), key: text(), value: text() });
const writing = statement(
  (
    sql,
  ) => `INSERT INTO node_figures (epoch, name, key, value) SELECT ?, f.name, f.key, f.value FROM ${fresh.table(sql, 'f')}
    WHERE true ON CONFLICT (epoch, name, key) DO UPDATE SET value = excluded.value`,
);
const gone = rowsParameter({ name: text(), key: text() });
const removal = statement(
  (sql) => `DELETE FROM node_figures WHERE epoch = ? AND EXISTS
    (SELECT 1 FROM ${gone.table(sql, 'g')} WHERE g.name = node_figures.name AND g.key = node_figures.key)`,
);

interface Deps {
  db: Pick<Database, 'commit'>;
  clock: Pick<Clock, 'after' | 'monotonic'>;
  log: Pick<Log, 'error'>;
  nodes: Pick<Nodes, 'epoch' | 'hasOthers'>;
}

export class FigureWriter<Needs> {
  private readonly deps: Deps;
  private readonly needs: Needs;
  private readonly all: readonly Figures<Needs, unknown>[];
  /** The values in the table by key, of each kind of figures. */
  private written = new Map<string, Map<string, string>>();
  private readonly dueAt = new Map<string, number>();
  private timer: Timer | null = null;
  private isFailing = false;
  private isStopped = false;

  constructor(deps: Deps, needs: Needs, all: readonly Figures<Needs, unknown>[]) {
    this.deps = deps;
    this.needs = needs;
    this.all = all;
  }

  start(): void {
    if (this.isStopped) return;
    this.timer = this.deps.clock.after(LOOK_MS, () => void this.look().finally(() => this.start()), {
      background: true,
    });
  }

  stop(): void {
    this.isStopped = true;
    this.timer?.cancel();
  }

  private async look(): Promise<void> {
    const { nodes, log } = this.deps;
    if (!nodes.hasOthers) {
      // Rows that are left say nothing to anyone; the next node that joins reads those that are written then.
      this.dueAt.clear();
      return;
    }
    try {
      for (const figures of this.all) await this.write(figures);
      this.isFailing = false;
    } catch (err) {
      // While the database is away every look fails: one line says so.
      if (!this.isFailing && !this.isStopped)
        log.error({ event: 'node_figures_failed', err }, 'what this node shows to the others could not be written');
      this.isFailing = true;
    }
  }

  private async write(figures: Figures<Needs, unknown>): Promise<void> {
    const { db, clock, nodes } = this.deps;
    const { name, everyMs } = figures;
    const now = clock.monotonic();
    if (now < (this.dueAt.get(name) ?? -Infinity)) return;
    const texts = await mapInSlices(
      await figures.read(this.needs),
      ([key, value]) => [key, JSON.stringify(value)] as const,
    );
    const values = new Map(texts.filter(([, value]) => value.length <= MOST_CHARACTERS));
    const before = this.written.get(name) ?? new Map<string, string>();
    const changed = [...values].filter(([key, value]) => before.get(key) !== value);
    const over = [...before.keys()].filter((key) => !values.has(key));
    for (let from = 0; from < Math.max(changed.length, over.length); from += MOST_ROWS) {
      const some = changed.slice(from, from + MOST_ROWS).map(([key, value]) => ({ name, key, value }));
      const ended = over.slice(from, from + MOST_ROWS).map((key) => ({ name, key }));
      await db.commit.transact(async (tx) => {
        if (ended.length > 0) await tx.run(removal, [nodes.epoch, gone.json(ended)]);
        if (some.length > 0) await tx.run(writing, [nodes.epoch, fresh.json(some)]);
      });
    }
    this.written.set(name, values);
    this.dueAt.set(name, now + everyMs - LOOK_MS / 2);
  }
}
