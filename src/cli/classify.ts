/** `posthorn classify`: explains replies by the operator's rules and the shipped ones, without a server. */
import { Option, type Command } from '@commander-js/extra-typings';
import { writeDuration } from '../base/time.ts';
import type { Context } from './cli.ts';
import { refusalPhases } from '../config/bounce-rule.ts';
import type { Config } from '../config/schema.ts';
import { createJudge, type Refusal, readRefusal } from '../messages/delivery/classify.ts';
import type { createExplainer, Teaches } from '../mta/limits/shaping.ts';
import { facts, json, table } from '../presentations/table.ts';

/** Opens the explainer of the delivery engine (mta/limits/shaping.ts), which is handed in. */
export type OpenExplainer = (
  ...given: Parameters<typeof createExplainer>
) => Promise<ReturnType<typeof createExplainer>>;

interface ClassifyOptions {
  mx?: string;
  phase?: (typeof refusalPhases)[number];
  json?: true;
}

/** Enough for a day's replies of a busy server; the user has to split a larger input. */
const MOST_INPUT = 16 * 2 ** 20;

export function addClassify(command: Command, context: Context, openExplainer: OpenExplainer | undefined): void {
  command
    .argument('<reply>', 'the reply with its code, or - for one a line from standard input')
    .option('--mx <host>', 'the mail host that said it')
    .addOption(
      new Option('--phase <phase>', 'what it answered (default: as it says, else rcpt)').choices(refusalPhases),
    )
    .option('--json', 'as JSON: one object, or one a line with -')
    .action(async (reply, options) => {
      const classify = await createClassifier(context.load().config, options, openExplainer);
      if (reply === '-') await classifyInput(context, classify, options);
      else context.print(options.json, classify(reply), () => linesOf(classify(reply)));
    });
}

type Classified = ReturnType<Awaited<ReturnType<typeof createClassifier>>>;

/** Reads the rule files once. Throws ConfigError if one of them has a mistake. */
async function createClassifier(
  { delivery }: Pick<Config, 'delivery'>,
  { mx, phase }: ClassifyOptions,
  openExplainer: OpenExplainer | undefined,
) {
  const { readBounceRules, readOperators } = await import('../config/data-file.ts');
  const { readLimitRules, rulesWith } = await import('../config/limit-rules.ts');
  const judge = createJudge(readBounceRules(delivery.bounceRules));
  const rules = readLimitRules();
  const explain = await openExplainer?.(
    rules.answers,
    rulesWith(rules, delivery.shaping),
    readOperators(delivery.operatorsFile),
  );
  return (reply: string) => {
    const refusal: Refusal = { ...readRefusal(reply, phase ?? null), mx: mx ?? null };
    const judged = judge(refusal);
    // A diagnostic of a bounce mail teaches nothing.
    const taught: Teaches | null = explain?.(refusal, judged) ?? null;
    return {
      reply,
      class: judged.class,
      reason: judged.reason,
      rule: judged.rule,
      suppress: judged.suppress,
      about: taught?.about ?? null,
      limit: taught?.closes ?? null,
      /** The rules that count it; times are in ms, and `for` is null for one that makes no pause. */
      shaping: (taught?.rules ?? []).map(({ name, action, count, within, for: ms }) => ({
        name,
        action,
        count,
        within,
        for: action === 'pause' ? ms : null,
      })),
    };
  };
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

const linesOf = (one: Classified): string[] =>
  facts([
    ['class', one.class],
    ['reason', one.reason],
    ['suppress', one.suppress],
    ['rule', one.rule],
    ['about', one.about],
    ['limit', one.limit === null ? null : limitLine(one.limit)],
    ...one.shaping.map((rule) => ['shaping', shapingLine(rule)] as const),
  ]);

const limitLine = (limit: NonNullable<Classified['limit']>): string =>
  `closed after ${String(limit.after)} in a row, for ${limit.for.map(writeDuration).join(', ')}`;

function shapingLine({ name, action, count, within, for: ms }: Classified['shaping'][number]): string {
  const done = ms === null ? action : `${action} for ${writeDuration(ms)}`;
  return `${name}: ${done} after ${String(count)} within ${writeDuration(within)}`;
}
