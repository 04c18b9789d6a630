/** Says that a list goes on behind the rows that a command has printed. */
import type { Context } from './cli.ts';
import { LARGEST_LIMIT } from './options.ts';

interface Rest {
  /** The value of `--limit`; absent for a command without one. */
  limit?: number;
  /** The way to what `--limit` does not reach. */
  beyond?: string;
}

/** Writes the line to standard error, for people: what programs read with `--json` stays as it is. */
export function noteMore(
  context: Pick<Context, 'note'>,
  asJson: boolean | undefined,
  { data, has_more: hasMore }: { data: readonly unknown[]; has_more: boolean },
  { limit, beyond }: Rest,
): void {
  if (asJson === true || !hasMore) return;
  const ways = [
    ...(limit !== undefined && limit < LARGEST_LIMIT ? [`--limit shows up to ${String(LARGEST_LIMIT)}`] : []),
    ...(beyond === undefined ? [] : [beyond]),
  ];
  const how = ways.length === 0 ? '' : `: ${ways.join('; ')}`;
  context.note(`these are the first ${String(data.length)}, and there are more${how}`);
}
