/** The result of a scenario, and the table of all results. */

export interface Bar {
  what: string;
  value: number;
  limit: string;
  held: boolean;
}

export interface Row {
  scenario: string;
  sender: string;
  mails: number;
  delivered: number;
  dials: number;
  dialsRefused: number;
  /** The most dials refused within one second. */
  worstSecond: number;
  attemptsPerMail: number;
  /** Seconds from acceptance until the receiver had taken the mail, of those it took. */
  seconds: { p50: number; p99: number; last: number };
  /** The share of a receiver's rate that was used; null if it has no rate. */
  allowanceUsed: number | null;
  /** Waiting mails asked for their reason, and those whose answer was not true. */
  reasons: { asked: number; untrue: number; examples: string[] };
  cores: number;
  megabytesWritten: number;
  bars: Bar[];
  /** Why it ended early. */
  error: string | null;
}

export const isHeld = ({ bars, error }: Row): boolean => error === null && bars.every(({ held }) => held);

/** The error of a scenario, for a row. */
export const told = (problem: unknown): string =>
  problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);

const fixed = (value: number, digits = 1): string => (Number.isFinite(value) ? value.toFixed(digits) : '-');

const columns: readonly [string, (row: Row) => string][] = [
  ['scenario', ({ scenario }) => scenario],
  ['sender', ({ sender }) => sender],
  ['delivered', ({ delivered, mails }) => `${String(delivered)}/${String(mails)}`],
  ['dials', ({ dials }) => String(dials)],
  ['refused', ({ dialsRefused }) => String(dialsRefused)],
  ['worst/s', ({ worstSecond }) => String(worstSecond)],
  ['attempts/mail', ({ attemptsPerMail }) => fixed(attemptsPerMail, 2)],
  ['p50 s', ({ seconds }) => fixed(seconds.p50)],
  ['p99 s', ({ seconds }) => fixed(seconds.p99)],
  ['last s', ({ seconds }) => fixed(seconds.last)],
  ['allowance', ({ allowanceUsed }) => (allowanceUsed === null ? '' : `${fixed(100 * allowanceUsed, 0)} %`)],
  ['untrue reasons', ({ reasons: { asked, untrue } }) => (asked === 0 ? '' : `${String(untrue)}/${String(asked)}`)],
  ['cores', ({ cores }) => fixed(cores, 2)],
  ['MB', ({ megabytesWritten }) => fixed(megabytesWritten, 0)],
  ['holds', (row) => (isHeld(row) ? 'yes' : 'NO')],
];

export function tableOf(rows: readonly Row[]): string {
  const cells = [columns.map(([title]) => title), ...rows.map((row) => columns.map(([, text]) => text(row)))];
  const widths = columns.map((_, at) => Math.max(...cells.map((line) => line[at]?.length ?? 0)));
  return cells
    .map((line) =>
      line
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Bars and untrue reasons, for those who read on. */
export function detailsOf(row: Row): string {
  const bars = row.bars.map(
    ({ what, value, limit, held }) =>
      `  ${held ? 'holds' : 'FAILS'}  ${what}: ${fixed(value, Number.isInteger(value) ? 0 : 2)} (${limit})`,
  );
  const examples = row.reasons.examples.map((text) => `  untrue reason: ${text}`);
  return [
    `${row.scenario} (${row.sender})`,
    ...bars,
    ...examples,
    ...(row.error === null ? [] : [`  ERROR  ${row.error}`]),
  ].join('\n');
}
