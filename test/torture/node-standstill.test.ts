import assert from 'node:assert/strict';
import { longestStandstill, type Waiting } from './node-standstill.ts';

const mail = (acceptedAt: number, arrivedAt: number, group = 'a'): Waiting => ({ group, acceptedAt, arrivedAt });

describe('torture/node-standstill', () => {
  const rows: [what: string, mails: readonly Waiting[], ms: number, group: string | null][] = [
    ['no mail', [], 0, null],
    ['nothing waits between two mails', [mail(10, 12), mail(50, 53)], 3, 'a'],
    ['one waits while others arrive', [mail(10, 90), mail(20, 30), mail(25, 60)], 30, 'a'],
    ['a mail that never comes', [mail(40, Infinity)], 60, 'a'],
    ['what waited at the beginning counts from there', [mail(-500, 20)], 20, 'a'],
    ['what waits at the end counts until there', [mail(30, 500)], 70, 'a'],
    ['a mail that arrives before its client hears of it', [mail(30, 20), mail(70, 75)], 5, 'a'],
    ['the group that stood longest', [mail(0, 10), mail(0, 40, 'b'), mail(50, 60)], 40, 'b'],
  ];
  for (const [what, mails, ms, group] of rows)
    it(what, () => assert.deepEqual(longestStandstill(mails, 0, 100), { ms, group }));
});
