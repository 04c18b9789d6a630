import assert from 'node:assert/strict';
import { createCompiledCache } from '../../src/templates/renderer.ts';
import { compile, type Compilation } from '../../src/templates/mixed/index.ts';

describe('templates/compiled-cache', () => {
  it('reads a source once for each part, and again when it was not used for long', () => {
    let reads = 0;
    const cached = createCompiledCache((source, part) => {
      reads++;
      return compile(source, part);
    });
    const first = cached('{{ a }}', 'html');
    assert.equal(cached('{{ a }}', 'html'), first);
    assert.notEqual(cached('{{ a }}', 'text'), first);
    assert.equal(reads, 2);
    for (let n = 0; n < 1000; n++) {
      cached(`{{ a${String(n)} }}`, 'html');
      cached('{{ a }}', 'html');
    }
    assert.equal(reads, 1002);
    cached('{{ a0 }}', 'html');
    assert.equal(reads, 1003);
  });

  it('keeps no more characters than it may, the newest first', () => {
    let reads = 0;
    const cached = createCompiledCache((source, part) => {
      reads++;
      return compile(source, part);
    });
    const sourceOf = (n: number): string => `${String(n)} ${'x'.repeat(100_000)}`;
    for (let n = 0; n < 100; n++) cached(sourceOf(n), 'html');
    for (let n = 99; n >= 80; n--) cached(sourceOf(n), 'html');
    assert.equal(reads, 100, 'two million characters');
    cached(sourceOf(70), 'html');
    assert.equal(reads, 101);
  });

  it('keeps faults, but not that the time was over', () => {
    const made: Compilation[] = [
      { ok: false, faults: [], slow: true },
      { ok: false, faults: [], slow: false },
    ];
    const cached = createCompiledCache(() => made.shift() ?? { ok: false, faults: [], slow: true });
    assert.ok(!cached('a', 'html').ok);
    const kept = cached('a', 'html');
    assert.equal(cached('a', 'html'), kept);
  });
});
