/** docs/client.md: every sample is right for the compiler and runs, and the list of methods is whole. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MailClient } from '../../src/client/index.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { docBlocks } from '../support/tools/doc-blocks.ts';

const root = path.resolve(import.meta.dirname, '../..');
const manual = readFileSync(path.join(root, 'docs/client.md'), 'utf8');
const samples = docBlocks(manual).filter(({ language }) => language === 'ts');

describe('docs/client.md', () => {
  let app: TestApp;
  let folder: string;
  const fileOf = (line: number): string => path.join(folder, `line-${line}.mts`);
  before(async () => {
    app = await startTestApp();
    folder = mkdtempSync(path.join(tmpdir(), 'ph-client-docs-'));
    const index = path.join(root, 'src/client/index.ts');
    for (const { line, text } of samples)
      writeFileSync(fileOf(line), `${text.replace("'posthorn-client'", JSON.stringify(index))}\nexport {};\n`);
  });
  after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await app.stop();
  });

  it('has samples that a strict compiler takes', () => {
    assert.ok(samples.length >= 6);
    const compilerOptions = {
      module: 'nodenext',
      target: 'es2023',
      lib: ['es2023', 'dom', 'dom.iterable'],
      types: [],
      strict: true,
      exactOptionalPropertyTypes: true,
      allowImportingTsExtensions: true,
      noEmit: true,
    };
    const files = samples.map(({ line }) => fileOf(line));
    writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
    const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
    assert.equal(status, 0, stdout);
  });

  const said: Record<string, RegExp> = {
    Sending: /^msg_\w{26} queued\n|^bo@ invalid_recipient\n/,
    'Tried again, sent once': /^true true\n$/,
    Errors: /^correct it: invalid_recipient to /,
    'Lists and events': /^sent evt_\w+\nbounced evt_\w+\nhard \w+\n(?:\S+\n)+$/,
    Webhooks: /^$/,
  };
  for (const { line, heading } of samples) {
    it(`line ${line} runs: ${heading}`, async () => {
      const env = { ...process.env, POSTHORN_API_KEY: app.key, POSTHORN_BASE_URL: app.url };
      const child = spawn(process.execPath, ['--import', 'tsx', fileOf(line)], { cwd: root, env });
      let output = '';
      child.stdout.on('data', (part: Buffer) => (output += part.toString()));
      child.stderr.on('data', (part: Buffer) => (output += part.toString()));
      const [code] = (await once(child, 'close')) as [number];
      assert.equal(code, 0, output);
      assert.match(output, said[heading] ?? assert.fail(heading));
    });
  }

  it('lists every group and method', () => {
    const mail = new MailClient({ apiKey: 'k', baseUrl: 'http://a.test' });
    for (const [group, methods] of Object.entries(mail)) {
      const row = manual.split('\n').find((one) => one.startsWith(`| \`${group}\``)) ?? assert.fail(group);
      const named = [...(row.split('|')[2] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name);
      const there = methodsOf(Object.getPrototypeOf(methods) as object);
      assert.deepEqual(named.toSorted(), there.toSorted(), group);
    }
  });
});

/** The methods of a class made from the description, and of the one that extends it. */
function methodsOf(prototype: object): string[] {
  const above = Object.getPrototypeOf(prototype) as object | null;
  const own = Object.getOwnPropertyNames(prototype).filter((name) => name !== 'constructor');
  return above === null || above === Object.prototype ? own : [...new Set([...own, ...methodsOf(above)])];
}
