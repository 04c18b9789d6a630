import assert from 'node:assert/strict';
import { createCompiledCache } from '../../src/templates/renderer.ts';
import { compile, type Compilation } from '../../src/templates/mixed/index.ts';

describe('templates/compiled-cache', () => {
  it('reads a source once for each part, and again when it was not used for long', () => {
    let reads = 0;
    const cache = createCompiledCache((source, part) => {
      reads++;
      return compile(source, part);
    });
    const first = cache.compile('{{ a }}', 'html');
    assert.equal(cache.compile('{{ a }}', 'html'), first);
    assert.notEqual(cache.compile('{{ a }}', 'text'), first);
    assert.equal(reads, 2);
    for (let n = 0; n < 1000; n++) {
      cache.compile(`{{ a${String(n)} }}`, 'html');
      cache.compile('{{ a }}', 'html');
    }
    assert.equal(reads, 1002);
    assert.equal(cache.size, 500);
    cache.compile('{{ a0 }}', 'html');
    assert.equal(reads, 1003);
  });

  it('keeps no more characters than it may, the newest first', () => {
    const cache = createCompiledCache(compile);
    for (let n = 0; n < 100; n++) cache.compile(`${String(n)} ${'x'.repeat(100_000)}`, 'html');
    assert.ok(cache.characters <= 2 * 1024 * 1024 && cache.characters > 1024 * 1024, String(cache.characters));
    assert.equal(cache.size, Math.floor(cache.characters / 100_000));
  });

  it('keeps faults, but not that the time was over', () => {
    const made: Compilation[] = [
      { ok: false, faults: [], slow: true },
      { ok: false, faults: [], slow: false },
    ];
    const cache = createCompiledCache(() => made.shift() ?? { ok: false, faults: [], slow: true });
    assert.ok(!cache.compile('a', 'html').ok);
    assert.equal(cache.size, 0);
    const kept = cache.compile('a', 'html');
    assert.equal(cache.compile('a', 'html'), kept);
    assert.equal(cache.size, 1);
  });
});
