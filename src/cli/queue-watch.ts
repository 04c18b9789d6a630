/** `posthorn queue watch`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import type { Operator } from '../operator/door/operator.ts';
import type { ResultOf } from '../operator/routes.ts';
import type { Context } from './cli.ts';
import { durationOption } from './options.ts';
import { json, printable } from '../presentations/table.ts';

interface WatchOptions {
  lane?: string;
  message?: string;
  for?: number;
  json?: true;
}

type Line = ResultOf<'queue.watch'>['data'][number];

const WAIT_MS = 20_000;

export function addWatch(queue: CommandUnknownOpts, context: Context): void {
  queue
    .command('watch')
    .description('show SMTP dialogues live, until Ctrl-C; never the contents of mails')
    .option('--lane <lane>', 'on the connections of this lane, as `queue lanes` shows it')
    .option('--message <id>', 'about this message')
    .option('--for <time>', 'end after so long, such as 1m', durationOption)
    .option('--json', 'one JSON object a line')
    .action((options) => context.operate((operator) => watch(context, operator, options)));
}

async function watch(context: Context, operator: Operator, options: WatchOptions): Promise<void> {
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
