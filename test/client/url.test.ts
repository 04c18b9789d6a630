import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseQuery } from '../../src/api/query.ts';
import { at, search } from '../../src/client/transport.ts';

describe('client/url', () => {
  it('encodes what stands in a path', () => {
    assert.equal(at`/v1/suppressions/${'a+b/c?d@dest.test'}`, '/v1/suppressions/a%2Bb%2Fc%3Fd%40dest.test');
    assert.equal(
      at`/v1/webhooks/${'whk_1'}/deliveries/${'dlv 2'}/resend`,
      '/v1/webhooks/whk_1/deliveries/dlv%202/resend',
    );
    assert.equal(at`/v1/events`, '/v1/events');
    assert.equal(at`/v1/received/${'rcv_1'}/attachments/${0}`, '/v1/received/rcv_1/attachments/0');
  });

  for (const part of ['', '.', '..', undefined, null, NaN, 1.5]) {
    it(`refuses ${part === undefined ? 'undefined' : JSON.stringify(part)} as an id: the path would lead somewhere else`, () => {
      assert.throws(() => at`/v1/messages/${part as string}`, TypeError);
    });
  }

  it('never leads to another path, whatever the id', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (id) => {
        fc.pre(id !== '.' && id !== '..' && id.isWellFormed());
        const { pathname } = new URL(at`/v1/messages/${id}/why`, 'http://x.test');
        return pathname.split('/').length === 5 && decodeURIComponent(pathname.split('/')[3] ?? '') === id;
      }),
    );
  });

  for (const [reason, query, text] of [
    ['nothing', {}, ''],
    ['what is left out', { a: undefined, b: null }, ''],
    ['an empty list', { status: [] }, ''],
    ['a list one by one', { status: ['queued', 'sent'] }, '?status=queued&status=sent'],
    [
      'an object by brackets',
      { metadata: { order: '17', 'a&b': 'c=d' } },
      '?metadata%5Border%5D=17&metadata%5Ba%26b%5D=c%3Dd',
    ],
    ['truth and numbers', { opened: true, limit: 5 }, '?opened=true&limit=5'],
    ['a time', { created_after: new Date(0) }, '?created_after=1970-01-01T00%3A00%3A00.000Z'],
  ] as const) {
    it(`writes ${reason}`, () => {
      assert.equal(search(query), text);
    });
  }

  it('is read by the API as it was meant', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.array(fc.string({ unit: 'grapheme' }), { minLength: 2 }),
        (subject, tag) => {
          fc.pre(subject.isWellFormed() && tag.every((one) => one.isWellFormed()));
          assert.deepEqual(
            parseQuery(search({ subject, tag }).slice(1), () => false),
            { subject, tag },
          );
        },
      ),
    );
  });
});
