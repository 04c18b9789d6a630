/** Commands that explain texts without a server: `posthorn inbound parse` and `posthorn classify`. */
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { openKeyring, type Keyring } from '../base/keyring.ts';
import { readBounceRules } from '../config/data-file.ts';
import type { FindingRecord } from '../inbound/finding.ts';
import type { openReportParser, ReportParser } from '../inbound/report-reader.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { json, printable, table, type Cell, facts } from '../presentations/presentation.ts';
import { writeDuration } from '../base/time.ts';
import type { refusalPhases } from '../config/bounce-rule.ts';
import type { Config } from '../config/schema.ts';
import { createJudge, readRefusal, type Refusal } from '../messages/delivery/classify.ts';
import type { createExplainer, Teaches } from '../mta/limits/shaping.ts';

/** The listener reads as much; the rest is ignored. */
const MOST_BYTES = 512 * 1024;
/** Files in memory at the same time. */
const WINDOW = 16;

/** Opens the reader of the listener (inbound/report-reader.ts), which is handed in. */
export type OpenReportParser = (...given: Parameters<typeof openReportParser>) => Promise<ReportParser>;

/** Reads mails from files as the listener does, and needs no server. */
export async function parse(context: Context, options: { file: string[]; json?: true }): Promise<void> {
  const openParser = context.program.openReportParser;
  if (openParser === undefined) throw new Error('this program was built without a listener');
  const rules = readBounceRules(context.load().config.delivery.bounceRules);
  const parser = await openParser(keyringIn(context), rules);
  try {
    await parseAll(context, parser, options.file, options.json === true);
  } finally {
    await parser.close();
  }
}

/** Returns the keys of the installation, or null if they cannot be read: then only the form of tokens is checked. */
function keyringIn(context: Context): Keyring | null {
  const { dataDir } = context.load().config;
  if (!existsSync(path.join(dataDir, 'secret.key'))) return null;
  try {
    return openKeyring(dataDir);
  } catch (error) {
    context.note(`posthorn: tokens are checked by their form alone: ${error instanceof Error ? error.message : ''}`);
    return null;
  }
}

/** Prints the files in their order; a file that cannot be read does not stop the others. */
async function parseAll(
  context: Context,
  parser: ReportParser,
  files: readonly string[],
  asJson: boolean,
): Promise<void> {
  const rows: Cell[][] = [];
  for (let start = 0; start < files.length; start += WINDOW) {
    const some = files.slice(start, start + WINDOW);
    const records = await Promise.all(some.map((file) => parseFile(context, parser, file)));
    for (const [at, record] of records.entries()) {
      const file = some[at] ?? '';
      if (record === null) continue;
      if (asJson) context.out(json({ file, ...record }, 0));
      else rows.push(...rowsOf(file, record));
    }
  }
  if (asJson || rows.length === 0) return;
  for (const line of table(['FILE', 'KIND', 'RECIPIENT', 'ACTION', 'STATUS', 'CLASS', 'REASON'], rows))
    context.out(line);
}

async function parseFile(context: Context, parser: ReportParser, file: string): Promise<FindingRecord | null> {
  const bytes = await beginOf(file).catch((error: unknown) => {
    context.note(`posthorn: ${printable(file)}: ${error instanceof Error ? error.message : String(error)}`);
    context.end(exitCodes.noInput);
    return null;
  });
  if (bytes === null) return null;
  const { record, fault } = await parser.parse(bytes);
  if (fault !== null) context.note(`posthorn: ${printable(file)}: ${fault}`);
  return record;
}

/** Reads to the end or to the limit: a pipe has no size, and gives what it has in pieces. */
async function beginOf(file: string): Promise<Uint8Array> {
  const handle = await open(file, 'r');
  try {
    const bytes = Buffer.alloc(MOST_BYTES);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      ({ bytesRead: read } = await handle.read(bytes, length, bytes.length - length, null));
    return bytes.subarray(0, length);
  } finally {
    await handle.close();
  }
}

function rowsOf(file: string, { kind, recipients, feedback_type: type }: FindingRecord): Cell[][] {
  const what = type === null ? kind : `${kind} (${type})`;
  if (recipients.length === 0) return [[file, what, null, null, null, null, null]];
  return recipients.map((one) => [file, what, one.address, one.action, one.status, one.class, one.reason]);
}

/** Opens the explainer of the delivery engine (mta/limits/shaping.ts), which is handed in. */
export type OpenExplainer = (
  ...given: Parameters<typeof createExplainer>
) => Promise<ReturnType<typeof createExplainer>>;

interface ClassifyOptions {
  reply: string;
  mx?: string;
  domain?: string;
  phase?: (typeof refusalPhases)[number];
  json?: true;
}

/** Enough for a day's replies of a busy server; the user has to split a larger input. */
const MOST_INPUT = 16 * 2 ** 20;

export async function classify(context: Context, options: ClassifyOptions): Promise<void> {
  const classifier = await createClassifier(context.load().config, options, context.program.openExplainer);
  if (options.reply === '-') {
    await classifyInput(context, classifier, options);
    return;
  }
  const classified = classifier(options.reply);
  context.print(options.json, classified, () => linesOf(classified));
}

type Classified = ReturnType<Awaited<ReturnType<typeof createClassifier>>>;

/** Reads the rule files once. Throws ConfigError if one of them has a mistake. */
async function createClassifier(
  { delivery }: Pick<Config, 'delivery'>,
  { mx, domain, phase }: ClassifyOptions,
  openExplainer: OpenExplainer | undefined,
) {
  const { readBounceRules, readOperators } = await import('../config/data-file.ts');
  const { readLimitRules, withOwn } = await import('../config/limit-rules.ts');
  const judge = createJudge(readBounceRules(delivery.bounceRules));
  const rules = readLimitRules();
  const explain = await openExplainer?.(
    rules.answers,
    withOwn(rules.rules, delivery.shaping),
    readOperators(delivery.operatorsFile),
    withOwn(rules.limits, delivery.limits),
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
      /** The rules for mail that hold at the host and for the domain, if that is given; times are in ms. */
      limits: (taught?.limits ?? [])
        .filter(({ match }) => domain === undefined || match.domain === undefined || match.domain === domain)
        .map(({ name, match, each, perHour = null, perDay = null, retry = null, maxAge = null }) => ({
          ...{ name, match, each, per_hour: perHour, per_day: perDay, retry, max_age: maxAge },
        })),
    };
  };
}

async function classifyInput(
  context: Context,
  classifier: (line: string) => Classified,
  options: ClassifyOptions,
): Promise<void> {
  const input = await context.read(MOST_INPUT);
  const lines = input.split(/\r?\n/).filter((line) => line.trim() !== '');
  const classified = lines.map(classifier);
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
    ...one.limits.map((rule) => ['mail', mailLine(rule)] as const),
  ]);

const limitLine = (limit: NonNullable<Classified['limit']>): string =>
  `closed after ${String(limit.after)} in a row, for ${limit.for.map(writeDuration).join(', ')}`;

/** Says a rule for mail: which mail, how much of it may go, and how long it is tried. */
function mailLine({ name, match, each, ...rule }: Classified['limits'][number]): string {
  const of = Object.entries(match).map(([what, which]) => `${what} ${which}`);
  const said = [
    ...(rule.per_hour === null ? [] : [`${String(rule.per_hour)} an hour`]),
    ...(rule.per_day === null ? [] : [`${String(rule.per_day)} a day`]),
    ...(each.length === 0 ? [] : [`for each ${each.join(' and ')}`]),
    ...(rule.retry === null ? [] : [`tried again after ${rule.retry.map(writeDuration).join(', ')}`]),
    ...(rule.max_age === null ? [] : [`given up after ${writeDuration(rule.max_age)}`]),
  ];
  return `${name}: ${of.length === 0 ? 'any mail' : of.join(', ')}: ${said.join(', ')}`;
}

function shapingLine({ name, action, count, within, for: ms }: Classified['shaping'][number]): string {
  const done = ms === null ? action : `${action} for ${writeDuration(ms)}`;
  return `${name}: ${done} after ${String(count)} within ${writeDuration(within)}`;
}
