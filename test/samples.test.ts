/** docs/samples.md: every sample runs, in every language that is installed here. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startTestApp, type TestApp } from './support/harness/app.ts';
import { docBlocks } from './support/tools/doc-blocks.ts';

const root = path.resolve(import.meta.dirname, '..');
const blocks = docBlocks(readFileSync(path.join(root, 'docs/samples.md'), 'utf8'));
const isFunction = (heading: string): boolean => heading.startsWith('The function for');
const preludeOf = (language: string): string =>
  blocks.find(({ heading, language: own }) => isFunction(heading) && own === language)?.text ?? '';

const isThere = (command: string, ...words: string[]): boolean =>
  spawnSync(command, words, { stdio: 'ignore' }).status === 0;

interface Language {
  missing: string | null;
  command: (file: string) => [string, ...string[]];
  extension: string;
}

const languages: Readonly<Record<string, Language>> = {
  sh: {
    missing: isThere('curl', '--version') ? null : 'curl is not installed',
    command: (file) => ['sh', '-eu', file],
    extension: 'sh',
  },
  ts: { missing: null, command: (file) => [process.execPath, '--import', 'tsx', file], extension: 'mts' },
  python: {
    missing: isThere('python3', '--version') ? null : 'Python is not installed',
    command: (file) => ['python3', file],
    extension: 'py',
  },
  php: {
    missing: isThere('php', '-r', 'exit(function_exists("curl_init") ? 0 : 1);')
      ? null
      : 'PHP with its curl extension is not installed',
    command: (file) => ['php', file],
    extension: 'php',
  },
};

describe('docs/samples.md', () => {
  let app: TestApp;
  let folder: string;
  before(async () => {
    app = await startTestApp();
    folder = mkdtempSync(path.join(tmpdir(), 'ph-samples-'));
  });
  after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await app.stop();
  });

  const tasks = [...new Set(blocks.map(({ heading }) => heading).filter((heading) => !isFunction(heading)))];
  it('has ten tasks, each in every language', () => {
    assert.equal(tasks.length, 10);
    for (const task of tasks)
      assert.deepEqual(
        blocks.filter(({ heading }) => heading === task).map(({ language }) => language),
        Object.keys(languages),
        task,
      );
  });

  for (const task of tasks) {
    for (const { language, text, line } of blocks.filter(({ heading }) => heading === task)) {
      it(`${task}: ${language}`, async function () {
        const how = languages[language] ?? assert.fail(language);
        if (how.missing !== null) this.skip(how.missing);
        // Time stands still in the app, and not in the sample.
        app.clock.advance(Math.max(0, Date.now() - app.clock.now()));
        const file = path.join(folder, `line-${String(line)}.${how.extension}`);
        const client = JSON.stringify(path.join(root, 'src/client/index.ts'));
        const program = `${preludeOf(language)}\n${text}`.replace("'posthorn-client'", client);
        writeFileSync(file, program.replaceAll('http://127.0.0.1:8025', app.url));
        const [command, ...words] = how.command(file);
        const env = { ...process.env, POSTHORN_API_KEY: app.key, POSTHORN_BASE_URL: app.url };
        const child = spawn(command, words, { cwd: root, env });
        let said = '';
        child.stdout.on('data', (part: Buffer) => (said += part.toString()));
        child.stderr.on('data', (part: Buffer) => (said += part.toString()));
        const [code] = (await once(child, 'close')) as [number];
        assert.equal(code, 0, said);
        assert.ok(said.length > 0);
        assert.doesNotMatch(said, /^\{"error":\{/m);
      });
    }
  }
});
