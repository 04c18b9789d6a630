/** `posthorn queue sources|unblock|watch`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import type { Operator } from '../operator/operator.ts';
import type { ResultOf } from '../operator/routes.ts';
import { pluralize } from '../base/pluralize.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { durationOption } from './options.ts';
import { unansweredLines } from './nodes.ts';
import { json, printable, table } from './table.ts';

interface WatchOptions {
  lane?: string;
  message?: string;
  for?: number;
  json?: true;
}

type Source = ResultOf<'queue.sources'>['data'][number];
type Line = ResultOf<'queue.watch'>['data'][number];

const WAIT_MS = 20_000;

export function addWatch(queue: CommandUnknownOpts, context: Context): void {
  queue
    .command('sources')
    .description(helpOf('queue.sources'))
    .option('--json', 'as one JSON object')
    .action(({ json: asJson }) => context.show(asJson, 'queue.sources', {}, sourceLines));
  queue
    .command('unblock')
    .description(helpOf('queue.unblock'))
    .argument('[source]', "its name (default: the system's address)")
    .option('--json', 'as one JSON object')
    .action((source, { json: asJson }) =>
      context.show(asJson, 'queue.unblock', { source }, (result) => [
        `${pluralize(result.unblocked, 'site')} ${result.unblocked === 1 ? 'gets' : 'get'} mail from it again`,
        ...unansweredLines(result),
      ]),
    );
  queue
    .command('watch')
    .description(helpOf('queue.watch'))
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
    const isFleet = page.nodes.length + page.unanswered.length > 1;
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

function sourceLines({ data: sources, nodes, unanswered }: ResultOf<'queue.sources'>): string[] {
  const isFleet = nodes.length + unanswered.length > 1;
  const [head, of] = [isFleet ? ['NODE'] : [], (node: string): string[] => (isFleet ? [node] : [])];
  const heads = table(
    ['SOURCE', ...head, 'POOL', 'IPV4', 'IPV6', 'EHLO', 'STATE'],
    sources.map((one) => [
      one.name ?? "(the system's)",
      ...of(one.node),
      one.pool,
      one.ipv4,
      one.ipv6,
      one.ehlo,
      stateOf(one),
    ]),
  );
  const blocks = sources.flatMap(({ name, node, blocks: off }) =>
    off.map((one) => [name ?? "(the system's)", ...of(node), one.site, one.until, one.reply]),
  );
  const warm = sources.flatMap(({ name, node, warm_up: sites }) =>
    sites.map((one) => [name ?? '', ...of(node), one.site, one.sent, one.cap ?? 'warm']),
  );
  return [
    ...heads,
    ...(blocks.length === 0 ? [] : ['', ...table(['SOURCE', ...head, 'KEPT OFF', 'UNTIL', 'REPLY'], blocks)]),
    ...(warm.length === 0 ? [] : ['', ...table(['SOURCE', ...head, 'WARM-UP AT', 'SENT TODAY', 'OF'], warm)]),
    ...(unanswered.length > 0 || sources.some(({ delivers }) => delivers) ? [] : [NOBODY]),
    ...unansweredLines({ unanswered }),
  ];
}

const NOBODY = 'no node delivers mail now: each that runs lacks the role delivery (node.roles) or is drained';

function stateOf({ delivers, paused, absent, blocks }: Source): string {
  if (!delivers) return 'its node does not deliver';
  if (paused) return 'paused';
  if (absent.length > 0) return `not on this machine: ${absent.join(', ')}`;
  return blocks.length > 0 ? `off ${String(blocks.length)} sites` : 'in use';
}
