import assert from 'node:assert/strict';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import fc from 'fast-check';
import { Problem } from '../../src/base/problem.ts';
import { checkCustomHeaders } from '../../src/webhooks/custom-header.ts';

const refused = (headers: Record<string, string>, code: string, field: string): void => {
  assert.throws(
    () => checkCustomHeaders(headers),
    (error) => error instanceof Problem && error.code === code && error.field === field,
  );
};

describe('webhooks/custom-header', () => {
  it('takes what a gateway asks for, in the order given', () => {
    const headers = { Authorization: 'Bearer abc.def', 'X-B': 'two words\tand a tab', 'x-a': '!' };
    assert.deepEqual(checkCustomHeaders(headers), Object.entries(headers));
  });

  for (const name of [
    'Host',
    'connection',
    'Content-Type',
    'content-length',
    'Content-Anything',
    'Webhook-Id',
    'webhook-signature',
    'webhook-x',
    'User-Agent',
    'Transfer-Encoding',
    'TE',
    'Trailer',
    'Upgrade',
    'Expect',
    'Keep-Alive',
    'Proxy-Authorization',
  ]) {
    it(`refuses ${name}, which is ours`, () => {
      refused({ [name]: 'x' }, 'header_not_allowed', `headers.${name}`);
    });
  }

  for (const [name, value, reason] of [
    ['X A', 'x', 'a space in the name'],
    ['', 'x', 'no name'],
    ['X-Ž', 'x', 'a name that is not ASCII'],
    ['X:', 'x', 'a colon in the name'],
    ['X'.repeat(101), 'x', 'a long name'],
    ['X-A', '', 'no value'],
    ['X-A', 'a\r\nHost: b', 'a second line'],
    ['X-A', 'a\nb', 'a line feed'],
    ['X-A', 'a\u0000b', 'NUL'],
    ['X-A', 'ž', 'a value that is not ASCII'],
    ['X-A', ' a', 'a space before'],
    ['X-A', 'a ', 'a space behind'],
    ['X-A', 'a'.repeat(1001), 'a long value'],
  ] as const) {
    it(`refuses ${JSON.stringify([name.slice(0, 10), value.slice(0, 20)])}: ${reason}`, () => {
      refused({ [name]: value }, 'invalid_header', `headers.${name.slice(0, 100)}`);
    });
  }

  it('refuses a name twice, and more than ten', () => {
    refused({ 'X-A': '1', 'x-a': '2' }, 'invalid_header', 'headers.x-a');
    refused(
      Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`X-${String(n)}`, 'x'])),
      'too_many_items',
      'headers',
    );
  });

  it('lets nothing through that the HTTP client would throw at', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ minLength: 1, maxLength: 5 }), fc.string({ maxLength: 5 }), { maxKeys: 3 }),
        (headers) => {
          let taken: [string, string][];
          try {
            taken = checkCustomHeaders(headers);
          } catch (error) {
            assert.ok(error instanceof Problem);
            return;
          }
          for (const [name, value] of taken) {
            validateHeaderName(name);
            validateHeaderValue(name, value);
          }
        },
      ),
    );
  });
});
