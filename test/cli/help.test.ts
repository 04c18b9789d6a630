/** Every command of the tree: what it says of itself, and what completes it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ownCommands } from '../../src/cli/commands.ts';
import { presentations } from '../../src/presentations/index.ts';
import { version } from '../../src/version.ts';
import { ran } from './ran.ts';

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

  it('has every command that is declared, of whatever group', () => {
    const declared = [...Object.values(presentations).flat(), ...ownCommands].map(({ command }) => command);
    assert.deepEqual(leaves.map(([command]) => command.join(' ')).sort(), declared.sort());
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
        // Outside of the editor of the shell its own functions say nothing.
        const stubs = `compdef() { : }; _describe() { print -l -- \${offers%%:*} }; _files() { print -l -- "$words[CURRENT]"*(N) }`;
        const script = `${stubs}; source ${file}; words=(${words.map((word) => `"${word}"`).join(' ')}); CURRENT=${String(words.length)}; _posthorn`;
        return run('zsh', ['-f', '-c', script]);
      },
      fish: (file, line) =>
        run('fish', ['--no-config', '-c', `source ${file}; complete -C '${line}'`]).map(
          (one) => one.split('\t')[0] ?? '',
        ),
    };

    /** Runs a shell in which \`posthorn\` prints the words that it is asked about, as if it offered them. */
    function run(program: string, args: string[]): string[] {
      writeFileSync(path.join(folder, 'posthorn'), '#!/bin/sh\nshift 2; printf "%s\\t\\n" "$*-asked" that-$#\n', {
        mode: 0o755,
      });
      const env = { ...process.env, HOME: folder, PATH: `${folder}:${process.env['PATH'] ?? ''}` };
      const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', cwd: folder, env });
      assert.deepEqual([status, stderr], [0, '']);
      return stdout.split('\n').filter((word) => word !== '');
    }

    for (const [shell, complete] of Object.entries(shells)) {
      it(`${shell} asks for what can follow the words of the line`, async function () {
        if (!hasShell(shell)) this.skip(`${shell} is not installed (apt-get install ${shell})`);
        const file = path.join(folder, `posthorn.${shell}`);
        writeFileSync(file, (await ran(['completion', shell])).out);
        assert.ok(complete(file, 'posthorn dom').includes('dom-asked'));
        assert.ok(complete(file, 'posthorn domains ').includes('that-2'), 'the word that is being written is empty');
      });
    }

    for (const [line, expected] of [
      ['dom', ['domains']],
      ['domains d', ['dkim']],
      ['domains dkim ', ['rotate', '--help']],
      ['domains dkim rotate --at', ['--at-once']],
      ['keys create --name domains --sc', ['--scopes']],
      ['--config x queue fl', ['flush']],
      ['keys create --name ', []],
      ['completion z', ['zsh']],
      ['inbound parse mai', []],
      ['nothing of th', []],
    ] as const)
      it(`offers after ${JSON.stringify(line)}: ${expected.join(', ')}`, async () => {
        const { out } = await ran(['complete', '--', ...line.split(' ')]);
        const words = out.split('\n').flatMap((one) => (one === '' ? [] : [one.split('\t')[0]]));
        assert.deepEqual(words, expected);
      });

    it('knows three shells', async () => {
      const { code, notes } = await ran(['completion', 'csh']);
      assert.equal(code, 64);
      assert.match(notes, /bash, zsh, fish/);
    });
  });
});
