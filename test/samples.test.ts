/** docs/samples.md and docs/samples-more.md: every sample runs, in every language that is installed here. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sign, writeSecret } from '../src/webhooks/signature.ts';
import { startTestApp, type TestApp } from './support/harness/app.ts';
import { docBlocks, type DocBlock } from './support/tools/doc-blocks.ts';

const root = path.resolve(import.meta.dirname, '..');
const blocksOf = (name: string): DocBlock[] => docBlocks(readFileSync(path.join(root, 'docs', name), 'utf8'));
const blocks = blocksOf('samples.md');
const isFunction = (heading: string): boolean => heading.startsWith('The function for');
const preludeOf = (language: string): string =>
  blocks.find(({ heading, language: own }) => isFunction(heading) && own === language)?.text ?? '';

const isThere = (command: string, ...words: string[]): boolean =>
  spawnSync(command, words, { stdio: 'ignore' }).status === 0;

/** Returns what a program prints, or null if it is not installed, which the types of Node.js do not say. */
const outputOf = (command: string, ...words: string[]): string | null =>
  spawnSync(command, words, { encoding: 'utf8' }).stdout;

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

/** The languages of docs/samples-more.md, in which a program has all its samples. */
const moreLanguages: Readonly<Record<string, Language>> = {
  go: {
    missing: isThere('go', 'version') ? null : 'Go is not installed',
    command: (file) => ['go', 'run', file],
    extension: 'go',
  },
  ruby: {
    missing: isThere('ruby', '--version') ? null : 'Ruby is not installed',
    command: (file) => ['ruby', file],
    extension: 'rb',
  },
  java: {
    missing: isThere('javac', '--version') ? null : 'Java is not installed',
    command: (file) => ['java', file],
    extension: 'java',
  },
  csharp: {
    // `dotnet run FILE` came with this version.
    missing: Number.parseInt(outputOf('dotnet', '--version') ?? '', 10) >= 10 ? null : '.NET 10 is not installed',
    command: (file) => ['dotnet', 'run', file],
    extension: 'cs',
  },
};

/** Runs a program, which has to succeed, and returns what it prints. */
async function run(
  [command, ...words]: [string, ...string[]],
  env: Record<string, string>,
  input = '',
): Promise<string> {
  const child = spawn(command, words, { cwd: root, env: { ...process.env, ...env } });
  let said = '';
  child.stdout.on('data', (part: Buffer) => (said += part.toString()));
  child.stderr.on('data', (part: Buffer) => (said += part.toString()));
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number];
  assert.equal(code, 0, said);
  return said;
}

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
        const said = await run(how.command(file), { POSTHORN_API_KEY: app.key, POSTHORN_BASE_URL: app.url });
        assert.ok(said.length > 0);
        assert.doesNotMatch(said, /^\{"error":\{/m);
      });
    }
  }

  it('has a program in each further language', () => {
    assert.deepEqual(
      blocksOf('samples-more.md').map(({ language }) => language),
      Object.keys(moreLanguages),
    );
  });

  for (const { language, text } of blocksOf('samples-more.md'))
    it(`sends, reads and verifies: ${language}`, async function () {
      const how = moreLanguages[language] ?? assert.fail(language);
      if (how.missing !== null) this.skip(how.missing);
      app.clock.advance(Math.max(0, Date.now() - app.clock.now()));
      const file = path.join(folder, `Samples.${how.extension}`);
      writeFileSync(file, text);
      const body = '{"type":"delivered","words":"schön"}';
      const secret = Buffer.alloc(32, 'key');
      const timestamp = Math.floor(Date.now() / 1000);
      const call = sign([Buffer.alloc(32, 'new'), secret], { id: 'evt_1', timestamp, body });
      const env = {
        POSTHORN_API_KEY: app.key,
        POSTHORN_BASE_URL: app.url,
        WEBHOOK_SECRET: writeSecret(secret),
        HTTP_WEBHOOK_ID: call['webhook-id'],
        HTTP_WEBHOOK_TIMESTAMP: call['webhook-timestamp'],
        HTTP_WEBHOOK_SIGNATURE: call['webhook-signature'],
      };
      const said = await run(how.command(file), env, body);
      assert.match(said, /msg_/);
      assert.match(said, /sent|delivered/);
      assert.match(said, /true\s*$/i);
      const later = String(timestamp + 1);
      assert.match(await run(how.command(file), { ...env, HTTP_WEBHOOK_TIMESTAMP: later }, body), /false\s*$/i);
    });
});
