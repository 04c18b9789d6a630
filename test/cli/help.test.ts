/** Every command of the tree: what it says of itself, and what completes it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { apiSummaries, machineSummaries, partSummaries } from '../../src/operations/summaries.ts';
import { version } from '../../src/version.ts';
import { ran } from './ran.ts';

const sorted = (names: readonly string[]): string[] => [...names].sort();

/** The commands that a `--help` lists. */
function listed(help: string): string[] {
  const [, list = ''] = help.split('\nCommands:\n');
  const [block = ''] = list.split('\n\n', 1);
  return [...block.matchAll(/^ {2}([a-z-]+)/gm)].flatMap(([, name]) =>
    name === undefined || name === 'help' ? [] : [name],
  );
}

async function helpsBelow(command: readonly string[]): Promise<[command: string[], help: string][]> {
  const { code, out } = await ran([...command, '--help']);
  assert.equal(code, 0, command.join(' '));
  const below = await Promise.all(listed(out).map((name) => helpsBelow([...command, name])));
  return [[[...command], out], ...below.flat()];
}

/** The commands that are promised. */
const promised = [
  'serve',
  'config check',
  'config show',
  'migrate',
  'admin create',
  'admin reset',
  'accounts add',
  'accounts list',
  'accounts plan',
  'keys create',
  'keys list',
  'keys revoke',
  'domains add',
  'domains records',
  'domains verify',
  'domains dkim rotate',
  'domains list',
  'send',
  'messages show',
  'messages why',
  'messages trace',
  'queue lanes',
  'queue list',
  'queue hold',
  'queue release',
  'queue flush',
  'queue cancel',
  'queue pause',
  'queue resume',
  'suppressions list',
  'suppressions add',
  'suppressions remove',
  'suppressions import',
  'suppressions export',
  'inbound parse',
  'classify',
  'events tail',
  'stats',
  'doctor',
  'completion',
];
/** Commands that do their work themselves: no operation has their summary. */
const ownWork: readonly string[] = [
  'serve',
  'config check',
  'config show',
  'migrate',
  'backup create',
  'backup verify',
  'backup restore',
  'storage move',
  'tls install',
  'inbound parse',
  'classify',
  'completion',
];
/** These have no result to print as JSON: one runs, one prints a script. */
const withoutJson: readonly string[] = ['serve', 'completion'];

describe('the help of every command', () => {
  let helps: [command: string[], help: string][] = [];
  let leaves: [command: string[], help: string][] = [];
  before(async () => {
    helps = await helpsBelow([]);
    leaves = helps.filter(([, help]) => listed(help).length === 0);
  });
  const names = (): string[] => helps.map(([command]) => command.join(' '));

  it('tells its version', async () => {
    for (const flag of ['--version', '-V']) {
      assert.deepEqual(await ran([flag]), { code: 0, out: version, notes: '' });
    }
  });

  it('there is every command that was promised', () => {
    assert.deepEqual(
      promised.filter((name) => !names().includes(name)),
      [],
    );
  });

  it('says what the command does, and shows examples that are commands and options there are', () => {
    for (const [command, help] of helps.slice(1)) {
      const name = command.join(' ');
      assert.match(help, /^Usage: posthorn .*\n\n\S.{5}/, name);
      const examples = [...help.matchAll(/^ {2}\$ (.*)$/gm)].map(([, line = '']) => line);
      assert.ok(examples.length > 0, `${name} shows no example`);
      assert.ok(
        examples.some((line) => line.includes(`posthorn ${name}`) || line.includes(` ${name} `)),
        `${name} shows examples of others only`,
      );
      for (const line of examples) knownOnly(line);
    }
  });

  it('says of each operation what the operation says of itself', () => {
    const summaries = [
      ...Object.values(apiSummaries),
      ...Object.values(machineSummaries),
      ...Object.values(partSummaries).flatMap((one) => Object.values(one) as string[]),
    ].map((text) => text.toLowerCase());
    const others = leaves.filter(([, help]) => {
      const [, text = ''] = help.split('\n\n');
      return !summaries.includes(text.replaceAll(/\s+/g, ' ').toLowerCase());
    });
    assert.deepEqual(sorted(others.map(([command]) => command.join(' '))), sorted(ownWork));
  });

  /** The command of an example line, and its options. */
  function knownOnly(line: string): void {
    const [, words = ''] = /posthorn (?:--config \S+ )?([^|>&]*)/.exec(line) ?? [];
    const best = helps.filter(([command]) => `${words} `.startsWith(`${command.join(' ')} `)).at(-1);
    const [command, help] = helps
      .filter(([one]) => `${words} `.startsWith(`${one.join(' ')} `))
      .reduce((a, b) => (b[0].length > a[0].length ? b : a), best ?? [[], '']);
    assert.ok(command.length > 0, line);
    for (const [option] of words.replaceAll(/"[^"]*"|'[^']*'/g, '').matchAll(/--[a-z-]+/g))
      assert.ok(help.includes(option), `${line}: ${option}`);
  }

  it('--json is everywhere', () => {
    const without = leaves.filter(([, help]) => !help.includes('--json')).map(([command]) => command.join(' '));
    assert.deepEqual(
      without.filter((name) => !withoutJson.includes(name)),
      [],
    );
  });

  it('an unknown option is a wrong use (64) everywhere', async () => {
    for (const [command] of leaves) {
      const { code, notes } = await ran([...command, '--no-such-option']);
      assert.equal(code, 64, command.join(' '));
      assert.match(notes, /unknown option '--no-such-option'|required option|missing required argument/);
    }
  });

  describe('completion', () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-complete-'));
    after(() => {
      rmSync(folder, { recursive: true });
    });
    const hasShell = (shell: string): boolean => spawnSync(shell, ['-c', 'true']).status === 0;
    const shells: Record<string, (file: string, line: string) => string[]> = {
      bash: (file, line) => {
        const words = line.split(' ');
        const script = `source ${file}; COMP_WORDS=(${words.map((word) => `"${word}"`).join(' ')}); COMP_CWORD=${String(words.length - 1)}; _posthorn; printf '%s\\n' "\${COMPREPLY[@]}"`;
        return run('bash', ['--norc', '-c', script]);
      },
      zsh: (file, line) => {
        const words = line.split(' ');
        // Returns the completions that the shell would show; outside of its editor the real ones say nothing.
        const stubs = `compdef() { : }; _describe() { print -l -- \${offers%%:*} }; _files() { print -l -- "$words[CURRENT]"*(N) }`;
        const script = `${stubs}; source ${file}; words=(${words.map((word) => `"${word}"`).join(' ')}); CURRENT=${String(words.length)}; _posthorn`;
        const last = words.at(-1) ?? '';
        return run('zsh', ['-f', '-c', script]).filter((word) => word.startsWith(last));
      },
      fish: (file, line) =>
        run('fish', ['--no-config', '-c', `source ${file}; complete -C '${line}'`]).map(
          (one) => one.split('\t')[0] ?? '',
        ),
    };

    function run(program: string, args: string[]): string[] {
      const { status, stdout, stderr } = spawnSync(program, args, {
        encoding: 'utf8',
        cwd: folder,
        env: { ...process.env, HOME: folder },
      });
      assert.deepEqual([status, stderr], [0, '']);
      return stdout.split('\n').filter((word) => word !== '');
    }

    for (const [shell, complete] of Object.entries(shells)) {
      it(`${shell} completes commands, options, words and files`, async function () {
        if (!hasShell(shell)) this.skip(`${shell} is not installed (apt-get install ${shell})`);
        const file = path.join(folder, `posthorn.${shell}`);
        writeFileSync(file, (await ran(['completion', shell])).out);
        writeFileSync(path.join(folder, 'mail.eml'), '');
        for (const [line, expected] of [
          ['posthorn dom', ['domains']],
          ['posthorn domains d', ['dkim']],
          ['posthorn domains dkim ', ['rotate']],
          ['posthorn domains dkim rotate --at', ['--at-once']],
          ['posthorn keys create --name domains --sc', ['--scopes']],
          ['posthorn --config x queue fl', ['flush']],
          ['posthorn inbound parse mai', ['mail.eml']],
          ['posthorn completion z', ['zsh']],
          ['posthorn nothing of th', []],
        ] as const)
          assert.deepEqual(
            complete(file, line).filter((word) => word !== '--help' && word !== '-h'),
            expected,
            line,
          );
        assert.ok(complete(file, 'posthorn ').includes('serve'));
      });
    }

    it('knows three shells', async () => {
      const { code, notes } = await ran(['completion', 'csh']);
      assert.equal(code, 64);
      assert.match(notes, /bash, zsh, fish/);
    });
  });
});
