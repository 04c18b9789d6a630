/** A command made of its presentation alone: its help, what it sends, its table, `--json`, and what it would do. */
import assert from 'node:assert/strict';
import { Command } from '@commander-js/extra-typings';
import type { Context } from '../../src/cli/cli.ts';
import { addCommands } from '../../src/cli/derive.ts';
import { columns, present, selectors } from '../../src/presentations/presentation.ts';

interface Row {
  id: string;
  waits_at: string;
}

const declared = present<{ data: Row[] }>({
  command: 'queue ring',
  operation: 'queue.cancel',
  says: 'cancel waiting mail',
  input: [
    { flag: '<bell>', says: 'which one' },
    ...selectors,
    { flag: '--for <time>', kind: 'hold_time', member: 'for_ms' },
    { flag: '--by <what>', choices: ['domain', 'key'] },
  ],
  with: { loud: true },
  isTried: true,
  instead: { given: 'by', operation: 'queue.senders', columns: columns<Row>(['NAME', ({ id }) => id]) },
  columns: columns<Row>('id', 'waits_at'),
  examples: ['posthorn queue ring door'],
});

describe('cli/derive', () => {
  async function performed(...args: string[]) {
    const out: string[] = [];
    const calls: [name: string, sent: unknown][] = [];
    const operator = {
      call: (name: string, sent: { dry_run?: boolean }) => {
        calls.push([name, sent]);
        const would = { object: 'dry_run', would: 'ring once', waiting: 1 };
        return Promise.resolve(sent.dry_run === true ? would : { data: [{ id: 'one', waits_at: 'now' }] });
      },
    };
    const context = {
      operate: (act: (operator: unknown) => unknown) => act(operator),
      print: (asJson: boolean, record: unknown, lines: () => readonly string[]) =>
        void out.push(...(asJson ? [JSON.stringify(record)] : lines())),
      note: (line: string) => void out.push(line),
    } as unknown as Context;
    const program = new Command().exitOverride().configureOutput({ writeOut: (text) => void out.push(text) });
    addCommands(program, context, [declared]);
    await program
      .parseAsync(args, { from: 'user' })
      .catch((error: unknown) => out.push((error as { code: string }).code));
    return { out, calls };
  }

  it('shows in its help the summary of its operation, its arguments and options', async () => {
    const help = (await performed('queue', 'ring', '--help')).out.join('\n');
    for (const text of ['cancel waiting mail', 'which one', '--message <id>', '"domain", "key"', '--dry-run', '--json'])
      assert.ok(help.includes(text), text);
  });

  it('sends its input by the names of the operation, and shows a table', async () => {
    const { out, calls } = await performed('queue', 'ring', 'door', '--message', 'msg_1', '--tag', 'eu', '--for', '2h');
    assert.deepEqual(calls, [
      ['queue.cancel', { loud: true, bell: 'door', message_id: 'msg_1', tag: 'eu', for_ms: 7_200_000 }],
    ]);
    assert.deepEqual(out, ['ID   WAITS', 'one  now']);
  });

  it('prints the record as JSON', async () => {
    const { out } = await performed('queue', 'ring', 'door', '--json');
    assert.deepEqual(out, ['{"data":[{"id":"one","waits_at":"now"}]}']);
  });

  it('performs another operation if its input asks for that', async () => {
    const { out, calls } = await performed('queue', 'ring', 'door', '--by', 'key');
    assert.deepEqual([calls[0]?.[0], out], ['queue.senders', ['NAME', 'one']]);
  });

  it('tells what it would do', async () => {
    const { out, calls } = await performed('queue', 'ring', 'door', '--dry-run');
    assert.deepEqual(calls, [['queue.cancel', { loud: true, bell: 'door', dry_run: true }]]);
    assert.deepEqual(out, ['would ring once']);
  });
});
