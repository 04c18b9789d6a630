import assert from 'node:assert/strict';
import { providerNames, providerOf } from '../../src/base/mailbox-providers.ts';
import { addToStats, statTypesOf } from '../../src/events/stats.ts';
import type { StatRow } from '../../src/storage/tables.ts';

describe('events/stats', () => {
  for (const [address, provider, reason] of [
    ['ana@gmail.com', 'google', 'a large provider'],
    ['ana@web.de', 'gmx', 'one of several names of one provider'],
    ['ana@notgmail.com', 'other', 'the whole domain counts'],
    ['ana@mail.gmail.com', 'other', 'nor what ends like it'],
    ['"a@gmail.com"@example.net', 'other', 'an at sign in the local part'],
  ] as const)
    it(`takes ${address} for ${provider}: ${reason}`, () => {
      assert.equal(providerOf(address), provider);
      assert.ok(providerNames.includes(provider));
    });

  for (const [type, detail, machine, expected] of [
    ['sent', {}, false, ['sent']],
    ['bounced', { class: 'hard' }, false, ['bounced', 'bounced_hard']],
    ['bounced', { class: 'undetermined' }, false, ['bounced']],
    ['opened', { first: true }, false, ['opened', 'unique_opened']],
    ['opened', { first: false }, false, ['opened']],
    ['clicked', { first: true }, true, ['machine_clicked']],
    ['unheard_of', {}, false, []],
  ] as const)
    it(`counts ${type} ${JSON.stringify(detail)}${machine ? ' by a machine' : ''} as ${expected.join(', ')}`, () => {
      assert.deepEqual(statTypesOf(type, detail, machine), expected);
    });

  it('adds to the hour and to the day, once without a tag, once for each, and once to all together', () => {
    const rows = new Map<string, StatRow>();
    const at = Date.parse('2026-01-31T23:59:59.999Z');
    const facts = {
      accountId: 'acc_1',
      at,
      test: false,
      stream: 'transactional',
      domain: 'acme.test',
      recipient: 'a@gmail.com',
      tags: ['x'],
      template: null,
    };
    addToStats(rows, facts, ['sent']);
    addToStats(rows, { ...facts, at: at + 1, tags: [] }, ['sent', 'delivered']);
    addToStats(rows, facts, ['sent']);
    const seen = [...rows.values()].map(({ span, at: from, tag, provider, sent, delivered }) => [
      span,
      new Date(from).toISOString(),
      tag,
      provider,
      sent,
      delivered,
    ]);
    assert.deepEqual(seen, [
      ['whole_hour', '2026-01-31T23:00:00.000Z', '', '', 2, 0],
      ['whole_day', '2026-01-31T00:00:00.000Z', '', '', 2, 0],
      ['hour', '2026-01-31T23:00:00.000Z', '', 'google', 2, 0],
      ['day', '2026-01-31T00:00:00.000Z', '', 'google', 2, 0],
      ['hour', '2026-01-31T23:00:00.000Z', 'x', 'google', 2, 0],
      ['day', '2026-01-31T00:00:00.000Z', 'x', 'google', 2, 0],
      ['whole_hour', '2026-02-01T00:00:00.000Z', '', '', 1, 1],
      ['whole_day', '2026-02-01T00:00:00.000Z', '', '', 1, 1],
      ['hour', '2026-02-01T00:00:00.000Z', '', 'google', 1, 1],
      ['day', '2026-02-01T00:00:00.000Z', '', 'google', 1, 1],
    ]);
  });

  it('adds mail of a template to rows of its own', () => {
    const rows = new Map<string, StatRow>();
    const facts = { accountId: 'acc_1', at: 0, test: false, stream: 's', domain: 'd', recipient: 'a@b', tags: ['x'] };
    addToStats(rows, { ...facts, template: 'tpl_1' }, ['sent']);
    addToStats(rows, { ...facts, template: null }, ['sent']);
    const seen = [...rows.values()]
      .filter(({ span }) => span.startsWith('template'))
      .map(({ span, tag, stream, provider, sent }) => [span, tag, stream, provider, sent]);
    assert.deepEqual(seen, [
      ['template_hour', 'tpl_1', 's', 'other', 1],
      ['template_day', 'tpl_1', 's', 'other', 1],
    ]);
  });

  it('has no row for what nobody counts', () => {
    const rows = new Map<string, StatRow>();
    addToStats(
      rows,
      { accountId: 'acc_1', at: 0, test: false, stream: 's', domain: 'd', recipient: 'a@b', tags: [], template: null },
      [],
    );
    assert.equal(rows.size, 0);
  });
});
