import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { favoursMemory } from '../../src/base/heap-growth.ts';

const MB = 1e6;

describe('the growth of the heap', () => {
  const steps: [live: number, expected: boolean][] = [
    [60, false],
    [100, false],
    [101, true],
    [90, true],
    [81, true],
    [80, false],
    [99, false],
    [140, true],
  ];
  it('favours memory above 100 MB of live objects, until they are 80 MB', () => {
    let now = false;
    for (const [live, expected] of steps) {
      now = favoursMemory(now, live * MB);
      assert.equal(now, expected, `${String(live)} MB`);
    }
  });

  it('sets the flags of V8 after a full collection, and back when it ends', () => {
    const module = path.resolve(import.meta.dirname, '../../src/base/heap-growth.ts');
    const program = `
      const { constants, PerformanceObserver } = require('node:perf_hooks');
      // An observer does not keep the process alive.
      const alive = setInterval(() => undefined, 1000);
      (async () => {
        const { watchHeap } = await import(${JSON.stringify(module)});
        const said = [];
        const end = watchHeap((flag) => said.push(flag));
        let seen = () => undefined;
        // It is told after the one above.
        const observer = new PerformanceObserver((list) => {
          if (list.getEntries().some(({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR)) seen();
        });
        observer.observe({ entryTypes: ['gc'] });
        const collect = async () => {
          const told = new Promise((resolve) => (seen = resolve));
          gc();
          await told;
          said.push('|');
        };
        await collect();
        let kept = Array.from({ length: 1_500_000 }, (_, n) => ({ n, of: [n] }));
        await collect();
        kept = kept.slice(0, 10);
        await collect();
        kept = Array.from({ length: 1_500_000 }, (_, n) => ({ n, of: [n] }));
        await collect();
        end();
        clearInterval(alive);
        console.log(said.join(' '));
      })();`;
    const said = execFileSync(process.execPath, ['--expose-gc', '--import', 'tsx', '-e', program], {
      encoding: 'utf8',
    });
    const early = '--heap-growing-percent=20 --optimize-for-size';
    const late = '--heap-growing-percent=50 --no-optimize-for-size';
    assert.equal(said.trim(), `| ${early} | ${late} | ${early} | ${late}`);
  });
});
