/** docs/classification.md says what the rules do: each reason with its classes, and how well they agree with what others labelled. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { bounceClasses, bounceReasons } from '../../src/config/bounce-rule.ts';
import { classify, shippedRules } from '../../src/messages/delivery/classify.ts';
import { isSuppressing, type Verdict } from '../../src/messages/delivery/delivery.ts';
import { NO_CORPORA } from '../support/harness/corpora.ts';
import { labelledReplies } from '../support/harness/labelled-replies.ts';

const text = readFileSync(path.resolve(import.meta.dirname, '../../docs/classification.md'), 'utf8');

/** The cells of the table below this heading or line, without its head. */
function tableAfter(mark: string): string[][] {
  const at = text.indexOf(mark);
  assert.ok(at >= 0, mark);
  const lines = text.slice(at).split('\n');
  const first = lines.findIndex((line) => line.startsWith('|'));
  const rest = lines.slice(first + 2);
  return rest
    .slice(
      0,
      rest.findIndex((line) => !line.startsWith('|')),
    )
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

const quoted = (cell: string): string[] => [...cell.matchAll(/`([a-z_]+)`/g)].map(([, word = '']) => word);

/** The classes that the rules can give a reason: a hard one of a temporary reply is told as `other` (messages/delivery/classify.ts). */
function classesOf(reason: string): Set<string> {
  const classes = new Set<string>(
    shippedRules.filter(({ rule }) => rule.reason === reason).map(({ rule }) => rule.class),
  );
  if (reason === 'rate_limited') classes.add('soft');
  return classes;
}

describe('docs/classification.md', () => {
  const reasons = tableAfter('## Reasons');

  it('has each reason once', () => {
    assert.deepEqual(reasons.flatMap(([reason = '']) => quoted(reason)).sort(), [...bounceReasons].sort());
  });

  for (const [name = '', classes = '', , suppresses = ''] of reasons) {
    const [reason = ''] = quoted(name);
    it(`gives ${reason} the classes that the rules give it, and says whether they suppress`, () => {
      assert.deepEqual(new Set(quoted(classes)), classesOf(reason));
      const said = [...classesOf(reason)].map((one) => isSuppressing({ class: one, reason } as Verdict));
      assert.equal(suppresses, said.every(Boolean) ? 'yes' : said.some(Boolean) ? 'if `hard`' : 'no');
    });
  }

  it('has each class once', () => {
    assert.deepEqual(
      tableAfter('## Classes').flatMap(([name = '']) => quoted(name)),
      [...bounceClasses],
    );
  });

  describe('tells how well the rules agree with labelled replies', () => {
    const rows = tableAfter('| Label ');
    const labelled = labelledReplies();
    // The figures are those of one collection: another gives others.
    const lines = text.includes(`${String(labelled?.length)} different lines`) ? labelled : null;

    for (const [labels = '', wanted = '', count = '', agree = ''] of rows)
      it(`${labels}: ${agree} of ${count}`, function () {
        if (lines === null)
          return this.skip(labelled === null ? NO_CORPORA : 'the figures are those of another collection');
        const names = quoted(labels);
        const some = lines.filter(({ label }) => names.includes(label));
        const right = some.filter(({ refusal }) => (classify(refusal).class === 'hard') === (wanted === '`hard`'));
        assert.deepEqual([some.length, right.length].map(String), [count, agree]);
        return undefined;
      });

    it('all of them, once', function () {
      if (lines === null)
        return this.skip(labelled === null ? NO_CORPORA : 'the figures are those of another collection');
      const told = rows.flatMap(([labels = '']) => quoted(labels));
      assert.deepEqual(told.sort(), [...new Set(lines.map(({ label }) => label))].sort());
      return undefined;
    });
  });
});
