/** `posthorn classify`. */
import { Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { refusalPhases } from '../config/bounce-rule.ts';
import { writeDuration } from '../config/kind.ts';
import { createLineClassifier, type Classified, type OpenExplainer } from '../operator/reports/classify.ts';
import type { Context } from './cli.ts';
import { json, table } from '../presentations/table.ts';

interface ClassifyOptions {
  mx?: string;
  phase?: (typeof refusalPhases)[number];
  json?: true;
}

/** Enough for a day's replies of a busy server; the user has to split a larger input. */
const MOST_INPUT = 16 * 2 ** 20;

export function addClassify(program: CommandUnknownOpts, context: Context, openExplainer: OpenExplainer): void {
  program
    .command('classify')
    .description(
      'explain what an SMTP reply, or the diagnostic of a bounce mail, would mean here, by which rule, and which limit would follow',
    )
    .argument('<reply>', 'the reply with its code, or - for one a line from standard input')
    .option('--mx <host>', 'the mail host that said it')
    .addOption(
      new Option('--phase <phase>', 'what it answered (default: as it says, else rcpt)').choices(refusalPhases),
    )
    .option('--json', 'as JSON: one object, or one a line with -')
    .action(async (reply, options) => {
      const { mx = null, phase = null } = options;
      const classify = await createLineClassifier(context.load().config, mx, phase, openExplainer);
      if (reply === '-') await classifyInput(context, classify, options);
      else context.print(options.json, classify(reply), () => factsOf(classify(reply)));
    });
}

async function classifyInput(
  context: Context,
  classify: (line: string) => Classified,
  options: ClassifyOptions,
): Promise<void> {
  const input = await context.read(MOST_INPUT);
  const lines = input.split(/\r?\n/).filter((line) => line.trim() !== '');
  const classified = lines.map(classify);
  if (options.json === true) for (const one of classified) context.out(json(one, 0));
  else {
    const rows = classified.map((one) => [one.class, one.reason, one.suppress, one.rule, one.reply]);
    for (const line of table(['CLASS', 'REASON', 'SUPPRESS', 'RULE', 'REPLY'], rows)) context.out(line);
  }
}

const factsOf = (one: Classified): string[] =>
  table(
    ['', ''],
    [
      ['class', one.class],
      ['reason', one.reason],
      ['suppress', one.suppress],
      ['rule', one.rule],
      ...(one.about === null ? [] : [['about', one.about]]),
      ...(one.limit === null ? [] : [['limit', limitLine(one.limit)]]),
      ...one.shaping.map((rule) => ['shaping', shapingLine(rule)]),
    ],
  ).slice(1);

const limitLine = (limit: NonNullable<Classified['limit']>): string =>
  `closed after ${String(limit.after)} in a row, for ${limit.for.map(writeDuration).join(', ')}`;

function shapingLine({ name, action, count, within, for: ms }: Classified['shaping'][number]): string {
  const done = ms === null ? action : `${action} for ${writeDuration(ms)}`;
  return `${name}: ${done} after ${String(count)} within ${writeDuration(within)}`;
}
