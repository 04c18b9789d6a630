import assert from 'node:assert/strict';
import {
  isOfEngine,
  readMark,
  stopsClock,
  writeMark,
  type HoldMark,
} from '../../../src/messages/delivery/hold-mark.ts';

interface Row {
  text: string;
  mark: HoldMark;
  pool?: true;
  stops?: true;
}

const rows: readonly Row[] = [
  { text: 'hld_01', mark: { kind: 'hold', id: 'hld_01' }, stops: true },
  { text: 'account:acc_1', mark: { kind: 'account', accountId: 'acc_1' }, stops: true },
  { text: 'stream:acc_1/news', mark: { kind: 'stream', accountId: 'acc_1', stream: 'news' } },
  { text: 'domain:acc_1/acme.test', mark: { kind: 'domain', accountId: 'acc_1', domain: 'acme.test' } },
  { text: 'rule:news@1000', mark: { kind: 'rule', rule: 'news', until: 1000 }, pool: true },
  { text: 'pool:bulk@mx.test', mark: { kind: 'pool', pool: 'bulk', site: 'mx.test' }, pool: true },
  {
    text: 'paused:bulk@mx.test',
    mark: { kind: 'paused', pool: 'bulk', site: 'mx.test' },
    pool: true,
    stops: true,
  },
];

describe('messages/delivery/hold-mark', () => {
  for (const { text, mark, pool = false, stops = false } of rows)
    it(`reads and writes ${text}`, () => {
      assert.deepEqual(readMark(text), mark);
      assert.equal(writeMark(mark), text);
      assert.equal(isOfEngine(text), pool);
      assert.equal(stopsClock(text), stops);
    });

  for (const text of ['', 'account', 'quota:acc_1', 'pool:bulk', 'paused:'])
    it(`does not read ${JSON.stringify(text)}`, () => {
      assert.equal(readMark(text), null);
      assert.equal(isOfEngine(text), false);
      assert.equal(stopsClock(text), false);
    });
});
