import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readLimitRules } from '../../src/config/limit-rules.ts';
import { ConfigError, shippedFile } from '../../src/config/load.ts';

describe('config/limit-rules', () => {
  let file: string;
  before(() => {
    file = path.join(mkdtempSync(path.join(tmpdir(), 'ph-limits-')), 'limits.yaml');
  });
  after(() => {
    rmSync(path.dirname(file), { recursive: true });
  });
  const shipped = readFileSync(shippedFile('limits.yaml'), 'utf8');

  it('reads the shipped file', () => {
    assert.deepEqual(readLimitRules().answers.block_list.after, 1);
  });

  for (const [find, put, what] of [
    ['after: 5', 'after: 0', /: answers\.sender\.after: /],
    ['[1m, 2m, 4m, 8m, 15m]', '[]', /: answers\.load\.close: /],
    ['block_list:', 'blocks:', /: answers: /],
    ['class: block', 'class: bad', /: rules\.0\.match\.class: /],
    ['limits: []', 'limits: [{ name: a, perHour: 0 }]', /: limits\.0\.perHour: /],
    ['limits: []', 'limits: [{ name: a, match: { mx: b }, perDay: 1 }]', /: limits\.0\.match: .*mx/],
    ['limits: []', 'limits: [{ name: a }]', /: limits\.0: one or more of perHour/],
    [
      'limits: []',
      'limits: [{ name: a, match: { operator: gmx }, maxAge: 1h }]',
      /: limits\.0: retry and maxAge with no operator/,
    ],
    [
      'limits: []',
      'limits: [{ name: a, perDay: 1 }, { name: a, perDay: 1 }]',
      /: limits: at most .* a name of its own/,
    ],
    ['rules:', 'rules: [', /limits\.yaml: /],
  ] as const)
    it(`says the fault and where it is: ${put}`, () => {
      writeFileSync(file, shipped.replace(find, put));
      assert.throws(
        () => readLimitRules(file),
        (error: unknown) =>
          error instanceof ConfigError && error.mistakes.some((one) => one.startsWith(file) && what.test(one)),
      );
    });
});
