/** docs/classification.md says what the rules do: each reason with its classes, and how well they agree with the labels of others. */
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

  it('tells how well the rules agree with labelled replies', function () {
    const lines = labelledReplies();
    if (lines === null) return this.skip(NO_CORPORA);
    // The figure is that of one collection: another gives another one.
    if (!text.includes(`${String(lines.length)} different lines`))
      return this.skip('the figure is that of another collection');
    const right = lines.filter(({ kind, refusal }) => (classify(refusal).class === 'hard') === (kind === 'hard'));
    assert.ok(text.includes(`${((100 * right.length) / lines.length).toFixed(1)} % Posthorn and the label agree`));
    return undefined;
  });
});
