/**
 * The transactions of SQLite's one writer. The statements that nearly every commit has wait, and are written as one, at the latest before the COMMIT:
 * the way of a statement to its thread and back takes a turn of the main loop, a millisecond at full load, and its work often a tenth of that. A group
 * that has no other statement needs neither BEGIN nor COMMIT.
 */
import type { GroupTransaction } from './commit.ts';
import type { Connection, Value } from './connection.ts';
import type { Statement } from './sql.ts';

/** The most parameters of a statement that can wait. */
const PARAMETERS = 9;
const values = Array.from({ length: PARAMETERS }, (_, at) => `v${String(at)}`);

/** The statements that wait at once, by number and by bytes: those of most groups (commit.ts). */
const MOST = 64;
const MOST_BYTES = 4 * 1024 * 1024;
/** A value with more is written by its own statement: a trigger copies its row once more. */
const LARGE_VALUE = 1536 * 1024;
/** The sizes that scripts are filled up to with rows that no trigger knows, as each size is prepared once. */
const STEP = 4;

/** The SQL by which a connection can run these statements as one: an insert of a row for each, with its number, into a view with a trigger for each. */
export const scriptView = (statements: readonly Statement[]): string =>
  [
    `CREATE TEMP VIEW script AS SELECT ${['number', ...values].map((name) => `NULL AS ${name}`).join(', ')}`,
    ...statements.map(
      ({ sqlite }, number) => `CREATE TEMP TRIGGER script_${String(number)} INSTEAD OF INSERT ON script
       WHEN NEW.number = '${String(number)}' BEGIN ${withValues(sqlite)}; END`,
    ),
  ].join(';\n');

function withValues(sql: string): string {
  const [first = '', ...parts] = sql.split('?');
  if (parts.length > PARAMETERS) throw new Error(`too many parameters to wait: ${sql}`);
  return first + parts.map((part, at) => `NEW.v${String(at)}${part}`).join('');
}

const ROW = `(${['number', ...values].map(() => '?').join(', ')})`;
const scriptOf = (rows: number): string =>
  `INSERT INTO script VALUES ${Array.from({ length: rows }, () => ROW).join(', ')}`;

/** A statement that waits: its number and its values. */
type Waiting = readonly [number: string, ...values: Value[]];

const sizeOf = (all: readonly Value[]): number =>
  all.reduce<number>((sum, value) => sum + (value === null || typeof value === 'number' ? 8 : value.length), 0);

/**
 * `usual`: the statements that wait, as `scriptView` got them. SQLite ends a transaction by itself after some errors, such as a full disk: a later
 * statement would be committed alone, and once more when the units run one by one. The driver runs statements in threads, so it gets one at a time,
 * and those after an error fail with it, as on PostgreSQL.
 */
export function sqliteTransaction(connection: Connection, usual: readonly Statement[] = []): GroupTransaction {
  const numbers = new Map(usual.map((one, number) => [one, String(number)]));
  let failure: { cause: unknown } | null = null;
  let last: Promise<unknown> = Promise.resolve();
  /** The group has begun, and its statements belong together; before that it reads. */
  let isInside = false;
  /** SQLite has begun. */
  let isBegun = false;
  let waiting: Waiting[] = [];
  let bytes = 0;

  function inTurn<Result>(perform: () => Promise<Result>): Promise<Result> {
    const result = last.then(() => {
      if (failure !== null) throw failure.cause;
      return perform();
    });
    last = result.catch((cause: unknown) => {
      failure ??= { cause };
    });
    return result;
  }

  function takeWaiting(): Waiting[] {
    const taken = waiting;
    waiting = [];
    bytes = 0;
    return taken;
  }

  async function runScript(script: readonly Waiting[]): Promise<void> {
    if (script.length === 0) return;
    const rows = Math.ceil(script.length / STEP) * STEP;
    // The driver takes 0.15 us to bind a text and 0.4 us for a null or a number.
    const all = new Array<Value>(rows * (PARAMETERS + 1)).fill('');
    script.forEach((one, row) => one.forEach((value, at) => (all[row * (PARAMETERS + 1) + at] = value)));
    await connection.run(scriptOf(rows), all);
  }

  async function begin(): Promise<void> {
    if (!isBegun) await connection.run('BEGIN IMMEDIATE');
    isBegun = true;
  }

  /** Performs a statement after those that were there before it. */
  function perform<Result>(how: () => Promise<Result>): Promise<Result> {
    if (!isInside) return inTurn(how);
    const before = takeWaiting();
    return inTurn(async () => {
      await begin();
      await runScript(before);
      return how();
    });
  }

  function hold(number: string, given: readonly Value[]): Promise<void> {
    waiting.push([number, ...given]);
    bytes += sizeOf(given);
    return waiting.length < MOST && bytes < MOST_BYTES ? Promise.resolve() : perform(() => Promise.resolve());
  }

  return {
    connection: {
      ...connection,
      all: (sql, given) => perform(() => connection.all(sql, given)),
      run(sql, given = []) {
        const number = typeof sql === 'string' ? undefined : numbers.get(sql);
        return number === undefined || !isInside || sizeOf(given) > LARGE_VALUE
          ? perform(() => connection.run(sql, given))
          : hold(number, given);
      },
    },
    ready() {
      failure = null;
      isInside = isBegun = false;
      takeWaiting();
      return Promise.resolve();
    },
    begin() {
      isInside = true;
      return Promise.resolve();
    },
    async commit() {
      await last;
      if (failure !== null) throw failure.cause;
      await runScript(takeWaiting());
      if (isBegun) await connection.run('COMMIT');
    },
    async rollback() {
      failure ??= { cause: new Error('the transaction was rolled back') };
      await last;
      // After some failures SQLite has rolled back by itself.
      if (isBegun) await connection.run('ROLLBACK').catch(() => undefined);
    },
    afterError: (error) => Promise.resolve(isUnwritable(error) ? 'fail' : 'split'),
  };
}

/** Returns whether no unit caused the error: one by one, each would wait for the same lock or disk. A smaller one may fit on a full disk. */
const isUnwritable = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && /^SQLITE_(?:BUSY|IOERR|READONLY|CANTOPEN)/.test(String(error.code));
