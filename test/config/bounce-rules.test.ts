import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bounceRule } from '../../src/config/bounce-rule.ts';
import { readBounceRules } from '../../src/config/data-file.ts';
import { ConfigError } from '../../src/config/load.ts';
import { mailOperators, shippedRules } from '../../src/messages/delivery/classify.ts';

describe('config/bounce-rules', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'ph-rules-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  const written = (name: string, text: string): string => {
    const file = path.join(folder, name);
    writeFileSync(file, text);
    return file;
  };
  const mistakesIn = (text: string): string[] => {
    const file = written('rules.yaml', text);
    try {
      readBounceRules([file]);
      return [];
    } catch (error) {
      assert.ok(error instanceof ConfigError);
      return error.mistakes.map((line) => line.replace(`delivery.bounceRules: ${file}: `, ''));
    }
  };

  it('reads rules of several files in their order, YAML or JSON', () => {
    const first = written(
      'a.yaml',
      'rules:\n  - { name: a, class: soft, reason: other, text: [no such [local] user] }\n'.replace(
        '[no such [local] user]',
        "['no such [local] user']",
      ),
    );
    const second = written(
      'b.json',
      JSON.stringify({ rules: [{ name: 'b', class: 'hard', reason: 'null_mx', codes: [556] }] }),
    );
    assert.deepEqual(
      readBounceRules([first, second]).map(({ name }) => name),
      ['a', 'b'],
    );
    assert.deepEqual(readBounceRules([]), []);
  });

  const rule = (rest: string): string => `rules:\n  - { name: x, class: soft, reason: other, ${rest} }\n`;
  for (const [text, mistake, why] of [
    ['rules: 5', /^rules: a list of rules$/, 'no list'],
    ['[]', /^: a group with rules$/, 'no group'],
    ['', /^: a group with rules$/, 'nothing'],
    ['rules: [', /^Flow/, 'no YAML'],
    ['other: 1\nrules: []', /Unrecognized key: "other"$/, 'an unknown member'],
    [rule('text: [a], colour: red'), /^rules\.0: Unrecognized key: "colour"$/, 'an unknown member of a rule'],
    ['rules:\n  - { name: X Y, class: soft, reason: other, text: [a] }', /^rules\.0\.name: a name/, 'a bad name'],
    [
      'rules:\n  - { name: x, class: firm, reason: other, text: [a] }',
      /class: hard, soft, block, undetermined$/,
      'an unknown class',
    ],
    [
      'rules:\n  - { name: x, class: soft, reason: because, text: [a] }',
      /reason: mailbox_not_found, /,
      'an unknown reason',
    ],
    [rule('text: []'), /text: a list of phrases$/, 'no phrase'],
    [rule("text: ['a ( b']"), /^rules\.0\.text\.0: a phrase \(this one has a bracket/, 'a phrase that cannot be read'],
    [rule(`text: ['${'a '.repeat(200)}']`), /text\.0: a phrase of at most 300 characters$/, 'a phrase without end'],
    [rule('codes: [200]'), /codes\.0: a reply code such as 550, 4xx, or none$/, 'a code of success'],
    [rule('enhanced: [5.1]'), /enhanced\.0: an enhanced code/, 'half an enhanced code'],
    [rule('names: [ab]'), /names\.0: a lower/, 'a name that is everywhere'],
    [rule('phases: [rcpt]'), /^rules\.0: a rule with text, names, enhanced or codes$/, 'a rule for everything'],
    [rule('text: [a], infrastructure: perhaps'), /infrastructure: true or false$/, 'no truth value'],
  ] as const) {
    it(`tells of ${why}`, () => {
      const mistakes = mistakesIn(text);
      assert.equal(mistakes.length, 1, mistakes.join('\n'));
      assert.match(mistakes[0] ?? '', mistake);
    });
  }

  it('tells all mistakes of all files at once', () => {
    const file = written('rules.yaml', rule('codes: [1]') + rule('codes: [2]').replace('rules:\n', ''));
    assert.throws(
      () => readBounceRules([path.join(folder, 'none.yaml'), file, folder]),
      (error) => {
        assert.ok(error instanceof ConfigError);
        assert.equal(error.mistakes.length, 4, error.message);
        assert.match(error.mistakes[0] ?? '', /none\.yaml: no such file$/);
        assert.match(error.mistakes[3] ?? '', /EISDIR$/);
        return true;
      },
    );
  });

  it('refuses a file that grows when it is read', () => {
    const doubled = Array.from({ length: 30 }, (_, i) => `l${i + 1}: &l${i + 1} [*l${i}, *l${i}]`).join('\n');
    assert.match(mistakesIn(`l0: &l0 [x]\n${doubled}\n`).join(), /alias/);
  });
});

describe('the shipped rules', () => {
  it('have the form of any rule', () => {
    for (const { stage, rule } of shippedRules) {
      // Groups are spelled out by now, which makes phrases long.
      const { text, not, ...rest } = rule;
      const read = bounceRule.safeParse({ ...rest, codes: rest.codes });
      assert.ok(read.success, `${stage}:${rule.name}: ${read.error?.message ?? ''}`);
      assert.ok((text ?? not)?.every((phrase) => !/[{}]/.test(phrase)) ?? true, `${stage}:${rule.name}`);
    }
  });

  it('have each a name of its own', () => {
    const labels = shippedRules.map(({ stage, rule }) => `${stage}:${rule.name}`);
    assert.equal(new Set(labels).size, labels.length);
  });

  it('end with one that fits everything', () => {
    const {
      name,
      class: bounceClass,
      reason,
      why,
      ...conditions
    } = shippedRules.at(-1)?.rule ?? { name: '', class: 'hard', reason: 'other' };
    assert.deepEqual(
      [name, bounceClass, reason, typeof why, conditions],
      ['no-reply', 'soft', 'network', 'string', {}],
    );
  });

  it('call hard only what is said of a mailbox or a domain', () => {
    const reasons = shippedRules.filter(({ rule }) => rule.class === 'hard').map(({ rule }) => rule.reason);
    assert.deepEqual([...new Set(reasons)].sort(), [
      'domain_not_found',
      'mailbox_disabled',
      'mailbox_not_found',
      'null_mx',
    ]);
  });

  it('name only operators that are known, whose hosts are told apart', () => {
    for (const { rule } of shippedRules)
      for (const name of rule.operators ?? []) assert.ok(Object.hasOwn(mailOperators, name), name);
    const ends = Object.values(mailOperators).flat();
    assert.equal(new Set(ends).size, ends.length);
    for (const end of ends) assert.match(end, /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/);
  });

  it('leave no group unused', () => {
    const text = readFileSync(path.resolve(import.meta.dirname, '../../config/bounce-rules.json'), 'utf8');
    const { groups } = JSON.parse(text) as { groups: Record<string, string[]> };
    assert.deepEqual(
      Object.keys(groups).filter((name) => !text.includes(`{${name}}`)),
      [],
    );
  });
});
