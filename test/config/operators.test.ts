import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ConfigError } from '../../src/config/load.ts';
import { readOperators } from '../../src/config/data-file.ts';

describe('config/operators', () => {
  for (const [name, connections, mails] of [
    ['yahoo', 5, 20],
    ['orange', 2, 100],
    ['comcast', 25, undefined],
  ] as const)
    it(`has for ${name} what its page says`, () => {
      const found = readOperators(null).find((one) => one.name === name);
      assert.deepEqual([found?.maxConnections, found?.messagesPerConnection], [connections, mails]);
    });

  let folder: string;
  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'ph-operators-'));
  });
  after(() => {
    rmSync(folder, { recursive: true });
  });
  const read = (text: string) => {
    const file = path.join(folder, 'operators.yaml');
    writeFileSync(file, text);
    return readOperators(file);
  };

  it('reads a file that the settings name', () => {
    assert.deepEqual(read('- { name: own, mx: [mx.own.test], maxConnections: 2 }'), [
      { name: 'own', mx: ['mx.own.test'], maxConnections: 2 },
    ]);
    assert.deepEqual(read('[]'), []);
  });

  for (const [text, what, reason] of [
    ['- { name: own }', /mx/, 'no hosts'],
    ['- { name: own, mx: [] }', /mx/, 'none of them'],
    ['- { name: own, mx: [com] }', /mx/, 'a whole top-level domain'],
    ['- { name: Own, mx: [mx.own.test] }', /name/, 'not a name'],
    ['- { name: own, mx: [mx.own.test], maxConnections: 0 }', /maxConnections/, 'no connections'],
    ['- { name: own, mx: [mx.own.test], max: 1 }', /max/, 'an unknown member'],
    ['- {', /operators\.yaml/, 'no YAML'],
    ['own', /array/, 'no list'],
  ] as const) {
    it(`refuses ${reason}`, () => {
      assert.throws(
        () => read(text),
        (error: unknown) =>
          error instanceof ConfigError &&
          what.test(error.message) &&
          error.message.startsWith('delivery.operatorsFile'),
      );
    });
  }

  it('says that there is no such file', () => {
    assert.throws(() => readOperators(path.join(folder, 'none.yaml')), ConfigError);
  });
});
