/** `posthorn nodes list|drain|resume|remove`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/routes.ts';
import { helpOf } from '../operations/summaries.ts';
import { unansweredText } from '../operator/ask-nodes.ts';
import type { Context } from './cli.ts';
import { table } from './table.ts';

type Node = ResultOf<'nodes.list'>['data'][number];

const lines = (nodes: readonly Node[]): string[] =>
  table(
    ['NODE', 'EPOCH', 'STATE', 'DELIVERS', 'LEADS', 'VERSION', 'SINCE', 'LAST SIGN OF LIFE', 'THIS ONE'],
    nodes.map((one) => [
      one.name,
      one.epoch,
      one.state,
      one.delivers,
      one.leads,
      one.version,
      one.since,
      one.last_sign_of_life_at,
      one.this,
    ]),
  );

/** Returns a line that names the nodes that have not answered. */
export const unansweredLines = ({ unanswered }: { unanswered: readonly string[] }): string[] =>
  unanswered.length === 0 ? [] : [`${unansweredText(unanswered)}: what is there is missing here`];

function drainLines(node: Node): string[] {
  const { name, leads, delivers } = node;
  return [
    `${name} takes no new SMTP sessions, and answers 503 at /readyz. It still answers requests.`,
    delivers
      ? 'It still delivers its mail, since no other node does that is not drained.'
      : 'The other nodes deliver its mail; it ends the attempts that it has begun.',
    ...(leads ? ['It goes on doing the chores until it is stopped: then another node leads.'] : []),
    `To end this: posthorn nodes resume ${name}`,
  ];
}

export function addNodes(program: CommandUnknownOpts, context: Context): void {
  const nodes = program.command('nodes').description('the servers that use the same database');
  nodes
    .command('list')
    .description(helpOf('nodes.list'))
    .option('--json', 'as one JSON object')
    .action(({ json }) => context.show(json, 'nodes.list', {}, ({ data }) => lines(data)));
  nodes
    .command('drain')
    .description(helpOf('nodes.drain'))
    .argument('<node>', 'name or epoch')
    .option('--json', 'as one JSON object')
    .action((node, { json }) => context.show(json, 'nodes.drain', { node }, drainLines));
  nodes
    .command('resume')
    .description(helpOf('nodes.resume'))
    .argument('<node>', 'name or epoch')
    .option('--json', 'as one JSON object')
    .action((node, { json }) => context.show(json, 'nodes.resume', { node }, (one) => lines([one])));
  nodes
    .command('remove')
    .description(helpOf('nodes.remove'))
    .argument('<node>', 'name or epoch')
    .option('--force', 'also one that lives: what it is doing ends')
    .option('--json', 'as one JSON object')
    .action((node, { force, json }) =>
      context.show(json, 'nodes.remove', { node, force: force === true }, ({ name }) => [
        `${name} is removed: what it writes fails from now on, and it stops when it notices.`,
      ]),
    );
}
