/** `posthorn exports list|create|save|remove`: lists of the API as files, which the running server writes. */
import { randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Argument, InvalidArgumentError, Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { codeOf } from '../base/error-code.ts';
import { systemClock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { HOUR_MS } from '../base/time.ts';
import type { Operator } from '../operator/operator.ts';
import type { ResultOf } from '../operator/operations.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { table } from './table.ts';

type Export = ResultOf<'exports.create'>;

const kinds = ['messages', 'events', 'stats', 'audit'] as const;
const formats = ['csv', 'ndjson'] as const;
const accountOption = ['--account <account>', 'name or id (default: default)'] as const;

const lines = (list: readonly Export[]): string[] =>
  table(
    ['ID', 'LIST', 'FORMAT', 'STATE', 'ROWS', 'BYTES', 'CREATED', 'BY'],
    list.map((one) => [
      one.id,
      one.kind,
      one.format,
      one.error ?? (one.is_cut ? `${one.state}, cut` : one.state),
      String(one.rows),
      String(one.bytes),
      one.created_at,
      one.created_by,
    ]),
  );

/** Reads `name=value`; the operation checks the names and values. */
function filterOption(text: string, before: Record<string, string> | undefined): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Expected name=value, such as status=bounced.');
  const name = text.slice(0, at);
  if (before !== undefined && Object.hasOwn(before, name))
    throw new InvalidArgumentError(`${name} is given twice. Where it takes several values, separate them by commas.`);
  if (at + 1 === text.length) throw new InvalidArgumentError(`${name} has no value: leave it out for all.`);
  return { ...before, [name]: text.slice(at + 1) };
}

export function addExports(program: CommandUnknownOpts, context: Context): void {
  const group = program.command('exports').description('lists as CSV or NDJSON files, which the running server writes');
  group
    .command('list')
    .description(helpOf('exports.list'))
    .option(...accountOption)
    .option('--json', 'as one JSON object')
    .action(({ account, json }) => context.show(json, 'exports.list', { account }, ({ data }) => lines(data)));
  group
    .command('create')
    .description(helpOf('exports.create'))
    .addArgument(new Argument('<list>').choices(kinds))
    .argument('[filters...]', 'such as status=bounced created_after=2026-01-01T00:00:00Z', filterOption)
    .addOption(new Option('--format <format>', 'of the file').choices(formats).default('csv' as const))
    .option(...accountOption)
    .option('--json', 'as one JSON object')
    .action((kind, query, { format, account, json }) =>
      context.show(json, 'exports.create', { account, kind, format, query }, (made) => lines([made])),
    );
  group
    .command('save')
    .description(helpOf('exports.file'))
    .argument('<id>')
    .argument('[file]', 'a new file; one that is there is not overwritten')
    .option(...accountOption)
    .option('--wait', 'until it is finished, at most an hour')
    .option('--json', 'as one JSON object; needs a file')
    .action((id, file, { account, wait, json }) => save(context, { id, file, account, wait, json }));
  group
    .command('remove')
    .description(helpOf('exports.remove'))
    .argument('<id>')
    .option(...accountOption)
    .option('--json', 'as one JSON object')
    .action((id, { account, json }) =>
      context.show(json, 'exports.remove', { account, id }, (gone) => [`removed ${gone.id}`]),
    );
}

async function save(
  context: Context,
  {
    id,
    file,
    account,
    wait,
    json,
  }: Record<'file' | 'account', string | undefined> & Record<'wait' | 'json', true | undefined> & { id: string },
): Promise<void> {
  if (json === true && file === undefined)
    throw new Problem('invalid_field', 'name a file for --json: standard output cannot have both');
  const found = await context.operate(async (operator) => {
    if (wait === true) await untilFinished(operator, { account, id });
    return await operator.call('exports.file', { account, id });
  });
  const source = createReadStream(found.path, { encoding: 'utf8' });
  if (file === undefined) {
    for await (const piece of linesOf(source)) context.outFile(piece);
    return;
  }
  await saveNew(source, file);
  context.print(json, { object: 'saved_export', id, file, format: found.format, bytes: found.bytes }, () => [
    `${file}: ${String(found.bytes)} bytes`,
  ]);
}

/** Writes a new file, which gets its name when all of it is on disk: nothing is left of one that cannot be written. */
async function saveNew(source: Readable, file: string): Promise<void> {
  const scratch = `${file}.${randomBytes(6).toString('hex')}.new`;
  try {
    refuseTaken(file);
    await pipeline(source, createWriteStream(scratch, { flags: 'wx', mode: 0o600, flush: true }));
    // Writing may have taken minutes, and a rename overwrites.
    refuseTaken(file);
    await rename(scratch, file);
  } catch (error) {
    await rm(scratch, { force: true });
    const code = codeOf(error);
    if (error instanceof Problem || code === '') throw error;
    throw notWritten(file, code, error);
  }
}

function refuseTaken(file: string): void {
  if (existsSync(file)) throw notWritten(file, 'there is such a file already');
}

const notWritten = (file: string, why: string, cause?: unknown): Problem =>
  new Problem('invalid_field', `${file} cannot be written: ${why}`, { cause });

/** The longest wait for an export, and the pause between two looks; ten million rows take minutes. */
const LONGEST_WAIT_MS = HOUR_MS;
const LOOK_EVERY_MS = 500;

/** Waits while the export is being written. Returns as well where there is no such export: the next operation says so. */
async function untilFinished(
  operator: Operator,
  { account, id }: { account: string | undefined; id: string },
): Promise<void> {
  const until = systemClock.monotonic() + LONGEST_WAIT_MS;
  for (;;) {
    const { data } = await operator.call('exports.list', { account });
    const state = data.find((one) => one.id === id)?.state;
    if (state !== 'waiting' && state !== 'running') return;
    if (systemClock.monotonic() > until)
      throw new Problem('invalid_state', 'The export was not finished within an hour; it goes on being written.');
    await systemClock.sleep(LOOK_EVERY_MS);
  }
}

/** Splits the text into whole lines, many in a piece, without the last line feed of each piece. */
async function* linesOf(source: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = '';
  for await (const piece of source) {
    const text = rest + piece;
    const end = text.lastIndexOf('\n');
    if (end > 0) yield text.slice(0, end);
    rest = text.slice(end + 1);
  }
  if (rest !== '') yield rest;
}
