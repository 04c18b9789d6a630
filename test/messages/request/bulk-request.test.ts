import assert from 'node:assert/strict';

import { Problem } from '../../../src/base/problem.ts';
import { checkSend, checkSendGently } from '../../../src/messages/request/send-request.ts';
import type { BulkDraft, MessageDraft } from '../../../src/messages/request/send-request.ts';
import { defaultLimits } from '../../../src/messages/request/send-limits.ts';

const NOW = Date.parse('2026-01-31T09:30:00.000Z');
const rules = { now: NOW, smtputf8: false, limits: defaultLimits };
const good = { from: 'Acme <hi@acme.test>', subject: 'Welcome', html: '<p>Hello</p>' };
const file = { filename: 'a.pdf', content: 'aGVsbG8=' };
const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

function bulk(more: Record<string, unknown>): BulkDraft {
  const result = checkSend({ ...good, ...more }, rules);
  assert.equal(result.kind, 'bulk');
  return result;
}

/** The drafts of a bulk send in which no entry may be at fault. */
const drafts = (more: Record<string, unknown>): MessageDraft[] =>
  bulk(more).entries.map((entry) => {
    if (entry.kind === 'rejected') throw entry.problem;
    return entry.draft;
  });

function refused(more: Record<string, unknown>): Problem {
  try {
    checkSend({ ...good, ...more }, rules);
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new assert.AssertionError({ message: 'the request passed' });
}

const two = [{ to: 'ana@example.net' }, { to: 'bo@example.net' }];

/** Faults that refuse the whole request: [what is put over the good one, code, field, why] */
const wholly: readonly (readonly [more: Record<string, unknown>, code: string, field: string, why: string])[] = [
  [{ recipients: two, to: 'x@y.test' }, 'mutually_exclusive_fields', 'to', 'both forms at once'],
  [{ recipients: two, cc: ['x@y.test'] }, 'mutually_exclusive_fields', 'cc', 'copies belong into entries'],
  [{ recipients: two, bcc: 'x@y.test' }, 'mutually_exclusive_fields', 'bcc', 'copies belong into entries'],
  [{ recipients: {} }, 'invalid_type', 'recipients', 'no list'],
  [{ recipients: 'ana@example.net' }, 'invalid_type', 'recipients', 'no list either'],
  [{ recipients: [] }, 'no_valid_recipients', 'recipients', 'nobody'],
  [{ recipients: many(1001, (i) => ({ to: `a${i}@b.test` })) }, 'too_many_recipients', 'recipients', '1,001 entries'],
  [{ recipients: two, recipient: 1 }, 'unknown_field', 'recipient', 'a typing error'],
  [{ recipients: two, from: 'x' }, 'invalid_sender', 'from', 'a shared fault'],
  [{ recipients: two, reply_to: 'x' }, 'invalid_address', 'reply_to', 'a shared fault'],
  [{ recipients: two, subject: 'a\nb' }, 'invalid_field', 'subject', 'a shared fault'],
  [{ recipients: two, headers: { From: 'x' } }, 'header_not_allowed', 'headers.From', 'a shared fault'],
  [
    { recipients: two, attachments: [{ ...file, content: '*' }] },
    'invalid_attachment',
    'attachments[0].content',
    'a shared fault',
  ],
  [{ recipients: two, send_at: 'x' }, 'invalid_send_at', 'send_at', 'a shared fault'],
  [{ recipients: two, html: '' }, 'missing_content', 'html', 'a shared body that is empty'],
  [{ recipients: two, on_error: 'stop' }, 'invalid_field', 'on_error', 'neither of the two'],
  [{ recipients: two, allow_duplicates: 1 }, 'invalid_type', 'allow_duplicates', 'no boolean'],
  [{ recipients: two, template_id: 'x' }, 'invalid_field', 'template_id', 'not available yet'],
  [{ recipients: [{ to: 'x' }, { to: 'y' }] }, 'no_valid_recipients', 'recipients', 'every entry is at fault'],
  [{ recipients: two, from: undefined }, 'no_valid_recipients', 'recipients', 'no entry has a sender'],
];

/** Faults of the second entry: [the entry, code, field behind `recipients[1]`, why] */
const byEntry: readonly (readonly [entry: unknown, code: string, field: string, why: string])[] = [
  [{ to: 'bo@' }, 'invalid_recipient', '.to', 'no address'],
  [{}, 'missing_field', '.to', 'no recipient'],
  [{ to: null }, 'missing_field', '.to', 'null is absent'],
  [{ to: 5 }, 'invalid_type', '.to', 'a number'],
  [null, 'missing_field', '', 'no entry'],
  ['bo@example.net', 'invalid_type', '', 'an address is no entry'],
  [['bo@example.net'], 'invalid_type', '', 'a list is no entry'],
  [{ to: 'bo@example.net', nmae: 'x' }, 'unknown_field', '.nmae', 'a typing error'],
  [{ to: 'bo@example.net', recipients: [] }, 'unknown_field', '.recipients', 'no bulk in a bulk'],
  [{ to: 'bo@example.net', on_error: 'skip' }, 'unknown_field', '.on_error', 'of the whole request'],
  [{ to: 'bo@example.net', cc: ['x'] }, 'invalid_recipient', '.cc[0]', 'a bad copy'],
  [{ to: 'bo@example.net', cc: many(50, (i) => `c${i}@b.test`) }, 'too_many_recipients', '.cc', '51 recipients'],
  [{ to: 'bo@example.net', from: 'x' }, 'invalid_sender', '.from', 'a bad sender of its own'],
  [{ to: 'bo@example.net', subject: 'a\r\nBcc: x@y.z' }, 'invalid_field', '.subject', 'header injection'],
  [{ to: 'bo@example.net', html: '' }, 'missing_content', '.html', 'an empty body replaces the shared one'],
  [{ to: 'bo@example.net', headers: { 'X-A': 'a\nb' } }, 'invalid_header', '.headers.X-A', 'a line break'],
  [
    { to: 'bo@example.net', headers: JSON.parse('{"__proto__":"a"}') as unknown },
    'invalid_field',
    '.headers.__proto__',
    'a name of objects',
  ],
  [
    { to: 'bo@example.net', headers: Object.fromEntries(many(50, (i) => [`X-${i}`, 'a'])) },
    'too_many_items',
    '.headers',
    '51 after merging',
  ],
  [{ to: 'bo@example.net', tags: many(10, (i) => `own${i}`) }, 'too_many_items', '.tags', 'eleven after adding up'],
  [
    { to: 'bo@example.net', metadata: Object.fromEntries(many(50, (i) => [`k${i}`, 'a'])) },
    'invalid_field',
    '.metadata',
    '51 after merging',
  ],
  [
    { to: 'bo@example.net', attachments: [{ ...file, filename: 'a.exe' }] },
    'attachment_type_not_allowed',
    '.attachments[0].filename',
    'a program',
  ],
  [
    { to: 'bo@example.net', attachments: [{ ...file, content: Buffer.alloc(19.4e6).toString('base64') }] },
    'message_too_large',
    '.attachments',
    'over 25 MiB',
  ],
  [{ to: 'bo@example.net', send_at: '2026-01-01T00:00:00Z' }, 'invalid_send_at', '.send_at', 'in the past'],
  [
    { to: 'bo@example.net', send_at: '2026-02-01T10:00:00Z' },
    'invalid_field',
    '.expires_at',
    'later than the shared expiry',
  ],
  [{ to: 'bo@example.net', variables: {} }, 'invalid_field', '.variables', 'not available yet'],
  [{ to: 'Ana <ANA@Example.NET>' }, 'duplicate_recipient', '.to', 'the first entry again, however written'],
];

describe('checkSend, bulk form', () => {
  for (const [more, code, field, why] of wholly) {
    it(`refuses all: ${code} ${field}: ${why}`, () => {
      const problem = refused(more);
      assert.deepEqual({ code: problem.code, field: problem.field }, { code, field });
    });
  }

  const shared = {
    headers: { 'X-Shared': '1' },
    tags: ['shared'],
    metadata: { shared: '1' },
    expires_at: '2026-02-01T09:30:00Z',
  };
  for (const [entry, code, field, why] of byEntry) {
    it(`leaves out one: ${code} recipients[1]${field}: ${why}`, () => {
      const recipients = [{ to: 'ana@example.net' }, entry, { to: 'cy@example.net' }];
      const { entries } = bulk({ ...shared, recipients });
      assert.deepEqual(
        entries.map(({ kind, index }) => `${index} ${kind}`),
        ['0 ok', '1 rejected', '2 ok'],
      );
      const second = entries[1];
      assert.ok(second?.kind === 'rejected');
      assert.deepEqual(
        { code: second.problem.code, field: second.problem.field },
        { code, field: `recipients[1]${field}` },
      );

      const aborted = refused({ ...shared, recipients, on_error: 'abort' });
      assert.deepEqual({ code: aborted.code, field: aborted.field }, { code, field: `recipients[1]${field}` });
    });
  }

  it('gives back what was sent as `to` of a refused entry', () => {
    const { entries } = bulk({ recipients: [...two, { to: 'bo@' }, { to: 5 }, 'x', { to: 'x'.repeat(1e5) }] });
    const sent = entries.slice(2).map((entry) => (entry.kind === 'rejected' ? entry.to : 'ok'));
    assert.deepEqual(sent.slice(0, 3), ['bo@', null, null]);
    assert.equal(sent[3]?.length, 1000);
  });

  it('names the first reason where every entry is refused', () => {
    assert.match(refused({ recipients: [{ to: 'bo@' }] }).message, /recipients\[0\]\.to/);
  });

  it('shares the content by identity where an entry overrides nothing of it', () => {
    const [ana, bo, cy, di, ed] = drafts({
      attachments: [file],
      recipients: [
        { to: 'ana@example.net' },
        { to: 'bo@example.net', subject: 'Ahoj', metadata: { order: '1' } },
        { to: 'cy@example.net', text: 'own' },
        { to: 'di@example.net', attachments: [] },
        { to: 'ed@example.net', auto_text: false },
      ],
    });
    assert.ok(ana && bo && cy && di && ed);
    assert.equal(ana.content, bo.content);
    assert.deepEqual(
      { html: cy.content.html, text: cy.content.text },
      { html: null, text: 'own' },
      'html and text are one group',
    );
    assert.equal(cy.content.attachments, ana.content.attachments);
    assert.deepEqual([di.content.html, di.content.attachments], [good.html, []]);
    assert.deepEqual([ed.content.html, ed.content.autoText, ana.content.autoText], [good.html, false, true]);
  });

  it('shares the content where entries only differ in auto_text', () => {
    const [none, off, on, alsoOff] = drafts({
      recipients: [undefined, false, true, false].map((auto_text, n) => ({ to: `a${String(n)}@b.test`, auto_text })),
    }).map(({ content }) => content);
    assert.deepEqual([none?.autoText, off?.autoText, on?.autoText], [true, false, true]);
    assert.equal(off, alsoOff);
  });

  it('refuses files that would be stored with too many different bodies', () => {
    const attachments = [{ filename: 'a.pdf', content: 'AAAA'.repeat(700_000) }];
    const recipients = (count: number, own: object) =>
      many(count, (n) => ({ to: `a${String(n)}@b.test`, html: `<p>${String(n)}</p>`, ...own }));
    assert.equal(bulk({ attachments, recipients: recipients(63, {}) }).entries.length, 63);
    const problem = refused({ attachments, recipients: recipients(64, {}) });
    assert.deepEqual([problem.code, problem.field], ['message_too_large', 'recipients']);
    assert.equal(bulk({ attachments, recipients: recipients(200, { html: null }) }).entries.length, 200);
  });

  it('merges headers and metadata, adds tags up, and replaces all else', () => {
    const [plain, own] = drafts({
      reply_to: 'help@acme.test',
      headers: { 'X-A': 'shared', 'X-B': 'shared' },
      metadata: { a: 'shared', b: 'shared' },
      tags: ['shared', 'both'],
      stream: 'broadcast',
      on_suppressed: 'reject',
      test: true,
      send_at: '2026-02-01T00:00:00Z',
      recipients: [
        { to: 'ana@example.net', cc: null, tags: null },
        {
          to: 'bo@example.net',
          from: 'Bo <bo@acme.test>',
          cc: 'cy@example.net',
          reply_to: ['own@acme.test'],
          subject: 'Ahoj',
          headers: { 'x-a': 'own', 'X-C': 'own' },
          metadata: { a: 'own', c: 'own' },
          tags: ['own', 'both'],
          stream: 'own',
          on_suppressed: 'accept',
          test: false,
          send_at: '2026-01-31T09:29:00Z',
        },
      ],
    });
    assert.ok(plain && own);
    assert.deepEqual(plain.headers, [
      ['X-A', 'shared'],
      ['X-B', 'shared'],
    ]);
    assert.deepEqual(
      [plain.metadata, plain.tags, plain.stream],
      [{ a: 'shared', b: 'shared' }, ['shared', 'both'], 'broadcast'],
    );
    assert.deepEqual(
      [plain.onSuppressed, plain.test, plain.sendAt],
      ['reject', { outcome: null }, Date.parse('2026-02-01T00:00:00Z')],
    );
    assert.deepEqual(
      plain.replyTo.map(({ address }) => address),
      ['help@acme.test'],
    );

    assert.deepEqual(own.headers, [
      ['x-a', 'own'],
      ['X-B', 'shared'],
      ['X-C', 'own'],
    ]);
    assert.deepEqual([own.metadata, own.tags], [{ a: 'own', b: 'shared', c: 'own' }, ['shared', 'both', 'own']]);
    assert.deepEqual(
      [own.stream, own.onSuppressed, own.test, own.sendAt, own.subject],
      ['own', 'accept', null, null, 'Ahoj'],
    );
    assert.deepEqual([own.from.address, own.cc.length, own.replyTo[0]?.address], ['bo@acme.test', 1, 'own@acme.test']);
  });

  it('lets entries bring what the shared part leaves out', () => {
    const bare = { from: undefined, subject: undefined, html: undefined };
    const own = { from: 'a@acme.test', subject: 'x', text: 'y' };
    assert.equal(drafts({ ...bare, recipients: [{ to: 'ana@example.net', ...own }] })[0]?.content.text, 'y');
    for (const [missing, code] of [
      ['from', 'missing_field'],
      ['subject', 'missing_field'],
      ['text', 'missing_content'],
    ] as const) {
      const { entries } = bulk({
        ...bare,
        recipients: [
          { to: 'ana@example.net', ...own },
          { to: 'bo@example.net', ...own, [missing]: null },
        ],
      });
      assert.ok(entries[1]?.kind === 'rejected');
      assert.deepEqual(
        [entries[1].problem.code, entries[1].problem.field],
        [code, `recipients[1].${missing === 'text' ? 'html' : missing}`],
      );
    }
  });

  it('takes an address again where the entry before was refused, or doubles are allowed', () => {
    const kinds = (more: Record<string, unknown>): string[] => bulk(more).entries.map(({ kind }) => kind);
    assert.deepEqual(kinds({ recipients: [{ to: 'a@b.test', subject: '' }, { to: 'a@b.test' }] }), ['rejected', 'ok']);
    const doubled = bulk({ allow_duplicates: true, recipients: [two[0], two[0]] });
    assert.deepEqual([doubled.allowDuplicates, ...doubled.entries.map(({ kind }) => kind)], [true, 'ok', 'ok']);
  });

  it('is the single form where recipients is null', () => {
    assert.equal(checkSend({ ...good, to: 'ana@example.net', recipients: null }, rules).kind, 'single');
  });

  it('lets others breathe, and comes to the same', async () => {
    const body = { ...good, recipients: many(1000, (i) => ({ to: i % 10 === 0 ? 'bad' : `a${i}@b.test` })) };
    let breaths = 0;
    const gently = await checkSendGently(body, rules, () => {
      breaths += 1;
      return Promise.resolve();
    });
    assert.equal(breaths, 40);
    assert.deepEqual(gently, checkSend(body, rules));
    await assert.rejects(
      checkSendGently({ ...body, on_error: 'abort' }, rules, () => Promise.resolve()),
      { code: 'invalid_recipient' },
    );
    assert.equal(
      (await checkSendGently({ ...good, to: 'a@b.test' }, rules, () => Promise.reject(new Error('no need')))).kind,
      'single',
    );
  });
});
