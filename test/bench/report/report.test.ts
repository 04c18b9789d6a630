import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { benches, commandOf } from './benches.ts';
import { parseTicks, stealPercent } from './machine.ts';
import { plot } from './plot.ts';
import { doubtsOf, reportMarkdown, type Report } from './report.ts';
import { readResults, resultOf, type Figure } from './result.ts';
import { durationOf, numberOf, referenceOf } from './words.ts';

const figure = (more: Partial<Figure> = {}): Figure => ({ name: 'POST p99', value: 20, unit: 'ms', ...more });

const report = (more: Partial<Report> = {}): Report => ({
  version: '1.2.3',
  startedAt: '2026-01-31T09:30:00.000Z',
  quick: false,
  machine: {
    cores: 2,
    model: 'A | B',
    memoryMiB: 4096,
    kernel: 'Linux 6',
    node: 'v20',
    rsaMs: 0.2,
    ed25519Ms: 0.03,
    fsyncMs: 0.1,
    load: 0.1,
    onBattery: null,
  },
  runs: [],
  ...more,
});

describe('figures of a benchmark', () => {
  const cases: [string, Partial<Figure>, boolean | null][] = [
    ['without a limit', {}, null],
    ['at its upper limit', { atMost: 20 }, true],
    ['above its upper limit', { atMost: 19.9 }, false],
    ['at its lower limit', { atLeast: 20 }, true],
    ['below its lower limit', { atLeast: 20.1 }, false],
    ['between two limits', { atLeast: 10, atMost: 30 }, true],
    ['not measured', { value: NaN, atMost: 30 }, false],
  ];
  for (const [name, more, held] of cases)
    it(`${name}: held ${String(held)}`, () => {
      assert.equal(resultOf(figure(more)).held, held);
    });

  it('come back from the file as they were told, what was not measured too', () => {
    const results = [resultOf(figure({ atMost: 25 })), resultOf(figure({ value: NaN }))];
    const file = results.map((result) => `${JSON.stringify(result)}\n`).join('');
    assert.deepEqual(readResults(file), results);
  });
});

describe('words of a report', () => {
  for (const [value, text] of [
    [0, '0'],
    [0.0234, '0.0234'],
    [5, '5'],
    [5.4567, '5.46'],
    [99.96, '100'],
    [1330.4, '1,330'],
    [NaN, 'not measured'],
    [Infinity, 'not measured'],
  ] as const)
    it(`${String(value)} is ${text}`, () => {
      assert.equal(numberOf(value), text);
    });

  for (const [ms, text] of [
    [400, '0 s'],
    [89_000, '89 s'],
    [90_000, '2 min'],
    [3_600_000, '60 min'],
    [5_460_000, '1 h 31 min'],
  ] as const)
    it(`${String(ms)} ms are ${text}`, () => {
      assert.equal(durationOf(ms), text);
    });

  it('say what a figure is held against', () => {
    assert.equal(referenceOf(figure()), '');
    assert.equal(
      referenceOf(figure({ atMost: 25, atLeast: 1, peer: { name: 'alone', value: 12.5 } })),
      'at least 1 ms; at most 25 ms; alone 12.5 ms',
    );
  });
});

describe('the machine', () => {
  it('has its steal from /proc/stat', () => {
    const before = parseTicks('cpu  100 0 50 800 20 0 5 25 0 0\ncpu0 1 2 3\n');
    assert.deepEqual(before, { all: 1000, idle: 820, steal: 25 });
    const after = parseTicks('cpu  150 0 50 1600 20 0 5 175 0 0\n');
    assert.equal(stealPercent(before, after), 15);
    assert.equal(stealPercent(before, before), 0);
  });
});

describe('results.md', () => {
  const measured = { kind: 'measured' } as const;
  const run = { name: 'latency', shows: 'answers', tookMs: 61_000, stealPercent: 0, outcome: measured, results: [] };

  it('counts the limits, and names what was broken, skipped and failed', () => {
    const text = reportMarkdown(
      report({
        runs: [
          { ...run, results: [resultOf(figure({ atMost: 25 })), resultOf(figure({ name: 'p50', atMost: 5 }))] },
          { ...run, name: 'bulk', outcome: { kind: 'skipped', why: 'smtp-sink is missing' } },
          { ...run, name: 'wan', outcome: { kind: 'failed', why: 'ended with 70' } },
        ],
      }),
    );
    assert.match(text, /1 of 2 limits are held\./);
    assert.match(text, /^\| latency \| POST p99 \| 20 ms \| at most 25 ms \| yes \|$/m);
    assert.match(text, /^\| latency \| p50 \| 20 ms \| at most 5 ms \| \*\*no\*\* \|$/m);
    assert.match(text, /\| skipped: smtp-sink is missing \|/);
    assert.match(text, /\| failed: ended with 70 \|/);
    assert.match(text, /^\| Processor \| A \\\| B, 2 cores \|$/m);
    assert.match(text, /!\[latency\]\(latency\.svg\)/);
    assert.doesNotMatch(text, /bulk\.svg/);
  });

  const doubts: [string, Partial<Report>, RegExp][] = [
    ['a quick run', { quick: true }, /Quick run/],
    ['a busy machine', { machine: { ...report().machine, load: 3 } }, /busy.*load 3\.0 on 2 cores/],
    ['a battery', { machine: { ...report().machine, onBattery: true } }, /battery/],
    ['much steal', { runs: [{ ...run, stealPercent: 12 }] }, /processors to others during: latency/],
  ];
  it('has nothing to doubt on a quiet machine', () => {
    assert.deepEqual(doubtsOf(report({ runs: [run] })), []);
  });
  for (const [name, more, pattern] of doubts)
    it(`doubts ${name}`, () => {
      const [doubt, ...others] = doubtsOf(report(more));
      assert.match(doubt ?? '', pattern);
      assert.deepEqual(others, []);
      assert.match(reportMarkdown(report(more)), pattern);
    });
});

describe('the drawing', () => {
  const svg = plot('a < b', [
    resultOf(figure({ value: 50, atMost: 100, peer: { name: 'Postfix', value: 25 } })),
    resultOf(figure({ name: 'p<50', value: NaN, atMost: 5 })),
    resultOf(figure({ value: 0, unit: 'x' })),
  ]);
  const bars = [...svg.matchAll(/<rect x="12" y="\d+" width="([\d.]+)"/g)].map(([, width]) => Number(width));

  it('has a bar for each figure and each peer, in proportion', () => {
    assert.equal(bars.length, 4);
    assert.equal(bars[0], (bars[1] ?? 0) * 2);
  });
  it('draws nothing for what was not measured, and no width that is not a number', () => {
    assert.equal(bars[2], 0);
    assert.doesNotMatch(svg, /NaN|Infinity/);
  });
  it('has a line at each limit, and its texts escaped', () => {
    assert.equal(svg.match(/<line /g)?.length, 2);
    assert.match(svg, /a &lt; b/);
    assert.match(svg, /p&lt;50/);
  });
});

describe('the list of benchmarks', () => {
  it('names each once, and files that are there', () => {
    assert.equal(new Set(benches.map(({ name }) => name)).size, benches.length);
    for (const bench of benches) {
      const [, , file = '', ...args] = commandOf(bench, { quick: false });
      assert.ok(existsSync(file), file);
      assert.deepEqual(args.slice(0, bench.args.length), bench.args);
    }
  });
  it('gives options that their benchmarks have', () => {
    for (const { script, args, quick } of benches) {
      const text = readFileSync(path.resolve(import.meta.dirname, '..', script), 'utf8');
      for (const option of [...args, ...quick].filter((arg) => arg.startsWith('--'))) {
        const name = option.slice(2);
        assert.ok(text.includes(`'${name}': {`) || text.includes(` ${name}: {`), `${script} has no ${option}`);
      }
    }
  });
});
