import assert from 'node:assert/strict';
import { soakFigures, type Soak, type SoakSample } from './soak-figures.ts';

const MINUTE = 60_000;
const samples = (change: (minute: number) => Partial<SoakSample> = () => ({}), minutes = 60): SoakSample[] =>
  Array.from({ length: minutes * 6 }, (_, n) => ({
    at: n * 10_000,
    rss: 200e6,
    heap: 60e6,
    descriptors: 80,
    wal: 4e6,
    file: 1e9,
    ...change(n / 6),
  }));

const soak = (more: Partial<Soak> = {}): Soak => ({
  samples: samples(),
  warmUpMs: 15 * MINUTE,
  durationMs: 60 * MINUTE,
  loopP99Ms: 10,
  errorsInLog: 0,
  missing: 0,
  wrongAnswers: 0,
  refused: 0,
  ...more,
});
const broken = (of: Soak): string[] => soakFigures(of).flatMap(({ name, held }) => (held === false ? [name] : []));

describe('the figures of a soak', () => {
  const cases: [string, Partial<Soak>, string[]][] = [
    ['a flat run', {}, []],
    [
      'memory that grows by 2 MB an hour',
      { samples: samples((minute) => ({ rss: 200e6 + (minute / 60) * 2e6 })) },
      ['resident memory: slope after the warm-up'],
    ],
    [
      'a heap that grows',
      { samples: samples((minute) => ({ heap: 60e6 + (minute / 60) * 9e6 })) },
      ['heap: slope after the warm-up'],
    ],
    [
      'memory that grows only in the warm-up',
      { samples: samples((minute) => ({ rss: minute < 15 ? minute * 1e7 : 2e8 })) },
      [],
    ],
    ['garbage between two collections', { samples: samples((minute) => ({ heap: 60e6 + (minute % 1) * 40e6 })) }, []],
    [
      'descriptors that leak',
      { samples: samples((minute) => ({ descriptors: 80 + minute })) },
      ['descriptors at the quietest of each minute, second half'],
    ],
    ['connections of a moment', { samples: samples((minute) => ({ descriptors: minute % 1 > 0.5 ? 180 : 80 })) }, []],
    ['a late loop', { loopP99Ms: 100 }, ['event loop late: p99']],
    ['a loop that was not looked at', { loopP99Ms: NaN }, ['event loop late: p99']],
    ['an error', { errorsInLog: 1 }, ['errors in the log']],
    ['a lost mail', { missing: 1 }, ['accepted mails that did not arrive']],
    ['a wrong answer', { wrongAnswers: 1 }, ['answers but 202 and 503']],
    ['refusals, which are an answer', { refused: 10 }, []],
    [
      'a short run, whose slope is shown and not held',
      {
        samples: samples((minute) => ({ rss: 200e6 + minute * 5e6 }), 2),
        warmUpMs: 30_000,
        durationMs: 2 * MINUTE,
      },
      [],
    ],
  ];
  for (const [name, more, names] of cases)
    it(`${name}: ${names.length === 0 ? 'holds' : 'does not hold'}`, () => {
      assert.deepEqual(broken(soak(more)), names);
    });
});
