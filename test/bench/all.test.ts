/** `npm run bench -- all` keeps working: one cheap benchmark with its smallest numbers, and the commands of its document. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { docBlocks } from '../support/tools/doc-blocks.ts';
import { benches } from './report/benches.ts';
import type { Report } from './report/report.ts';

const script = path.join(import.meta.dirname, 'all.ts');
const root = path.resolve(import.meta.dirname, '../..');
const bench = (...args: string[]) => promisify(execFile)(process.execPath, ['--import', 'tsx', script, ...args]);

describe('npm run bench -- all', () => {
  it('measures, and writes the report with its table and drawing', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-bench-'));
    try {
      const { stdout } = await bench('--quick', '--only', 'idle', '--out', folder);
      assert.match(stdout, /^1\/1 idle: .*\n {3}idle: \d+ MiB/m);
      assert.deepEqual(readdirSync(folder).sort(), ['idle.log', 'idle.svg', 'results.json', 'results.md']);
      const report = JSON.parse(readFileSync(path.join(folder, 'results.json'), 'utf8')) as Report;
      assert.deepEqual(
        report.runs.map(({ name, outcome, results }) => [name, outcome.kind, results.length]),
        [['idle', 'measured', 3]],
      );
      assert.ok(report.machine.rsaMs > report.machine.ed25519Ms && report.machine.ed25519Ms > 0);
      assert.match(
        readFileSync(path.join(folder, 'results.md'), 'utf8'),
        /Quick run[^]*\| idle \| restart \| [\d,]+ ms/,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('lists the benchmarks, only those that are asked for', async () => {
    const { stdout } = await bench('--list', '--only', 'wan,idle');
    assert.deepEqual(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split(' ')[0]),
      ['wan', 'idle'],
    );
  });

  it('names a benchmark that is not there, and runs none', async () => {
    const failed = await bench('--only', 'speed').then(
      () => null,
      (error: unknown) => error as { code: number; stderr: string },
    );
    assert.equal(failed?.code, 64);
    assert.match(failed.stderr, /no benchmark speed/);
  });

  describe('in docs/benchmark.md', () => {
    const page = readFileSync(path.join(root, 'docs/benchmark.md'), 'utf8');
    const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const lines = docBlocks(page).flatMap(({ text }) => text.split('\n'));
    const commands = lines.flatMap((line) => /^npm run bench -- all (?<args>.+)$/.exec(line)?.groups?.['args'] ?? []);

    it('has commands', () => {
      assert.ok(commands.length >= 5);
    });
    for (const args of commands)
      it(`runs with ${args}`, async () => {
        const { stdout } = await bench(...args.split(' '), '--list');
        assert.match(stdout, /^\S+ +\d+ (?:s|min) /);
      });
    it('names only commands that are there', () => {
      const named = [...page.matchAll(/npm run ([\w:]+)/g)].map(([, name = '']) => name);
      assert.deepEqual(
        named.filter((name) => scripts[name] === undefined),
        [],
      );
    });
    it('lists every benchmark, in their order', () => {
      const rows = [...page.matchAll(/^\| `([\w-]+)` +\| .* \| .* \|$/gm)].map(([, name]) => name);
      assert.deepEqual(
        rows,
        benches.map(({ name }) => name),
      );
    });
  });
});
