/** Commands that show things as they happen: `posthorn events tail` and `posthorn queue watch`. */
import { systemClock } from '../base/clock.ts';
import type { EventRecord, Page } from '../client/types.ts';
import type { AskedOf, Operator } from '../operator/door/operator.ts';
import type { ResultOf } from '../operator/routes.ts';
import { json, printable } from '../presentations/presentation.ts';
import type { Context } from './cli.ts';

interface TailOptions {
  types?: string[];
  since?: string;
  limit: number;
  account?: string;
  follow: boolean;
  json?: true;
}

const PAGE = 500;
const POLL_MS = 500;

export const tail = (context: Context, options: TailOptions): Promise<void> =>
  context.operate((operator) => tailFrom(context, operator, options));

async function tailFrom(context: Context, operator: Operator, options: TailOptions): Promise<void> {
  const { types, since, limit, account, follow } = options;
  const pageOf = (query: AskedOf['query']): Promise<Page<EventRecord>> =>
    operator.ask('listEvents', { account, query: { type: types?.join(','), occurred_after: since, ...query } });
  const write = options.json === true ? (event: EventRecord) => json(event, 0) : line;
  let page = await pageOf(since === undefined ? { before: 'end', limit } : { after: 'start', limit: PAGE });
  let isOver = since === undefined || !page.has_more;
  for (;;) {
    for (const event of page.data) context.out(write(event));
    if (isOver && !follow) return;
    if (isOver) await systemClock.sleep(POLL_MS);
    page = await pageOf({ after: page.next_cursor ?? undefined, limit: PAGE });
    isOver = !page.has_more;
  }
}

function line({ timestamp, type, test, data }: EventRecord): string {
  const detail = (data as Readonly<Record<string, unknown>>)[type];
  const reply = typeof detail === 'object' && detail !== null && 'smtp_reply' in detail ? detail.smtp_reply : null;
  const said = typeof reply === 'string' ? [printable(reply)] : [];
  return [
    timestamp,
    type.padEnd(10),
    printable(data.recipient),
    data.message_id,
    ...(test ? ['(simulated)'] : []),
    ...said,
  ].join('  ');
}

interface WatchOptions {
  lane?: string;
  message?: string;
  for?: number;
  json?: true;
}

type Line = ResultOf<'queue.watch'>['data'][number];

const WAIT_MS = 20_000;

export const watch = (context: Context, options: WatchOptions): Promise<void> =>
  context.operate((operator) => watchFrom(context, operator, options));

async function watchFrom(context: Context, operator: Operator, options: WatchOptions): Promise<void> {
  const { lane, message, for: forMs = Infinity, json: asJson } = options;
  const end = systemClock.now() + forMs;
  let page = await operator.call('queue.watch', { lane, message_id: message });
  if (page.lane_known === false)
    context.note(
      `there is no lane ${JSON.stringify(lane)} now: what is shown begins with its first mail. If the name is mistyped, \`posthorn queue lanes\` shows the right one`,
    );
  for (;;) {
    if (page.lost > 0) context.note(`${String(page.lost)} lines came too fast to be shown`);
    const isFleet = page.nodes.length > 1;
    for (const line of page.data) context.out(asJson === true ? json(line, 0) : text(line, isFleet));
    const left = end - systemClock.now();
    if (left <= 0) return;
    const wait = Math.max(0, Math.min(WAIT_MS, Math.floor(left)));
    page = await operator.call('queue.watch', { watch: page.watch, after: page.position, wait_ms: wait });
  }
}

/** Connections are numbered by their node. */
const text = ({ at, connection, host, side, text: said, node }: Line, isFleet: boolean): string =>
  `${at}  ${isFleet ? `${node}  ` : ''}${host}#${String(connection)}  ${side} ${printable(said)}`;
