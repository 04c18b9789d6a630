/** The check that the harnesses make of every answer, shown to find each kind of breach. */
import assert from 'node:assert/strict';
import { contractOf, type SeenAnswer } from '../support/harness/contract.ts';
import { breachesOf } from '../support/tools/json-schema.ts';

const common = {
  'x-request-id': 'req_1',
  'x-ratelimit-limit': '600',
  'x-ratelimit-remaining': '1',
  'x-ratelimit-reset': '9',
  'x-content-type-options': 'nosniff',
};
const json = { ...common, 'content-type': 'application/json; charset=utf-8' };

function answer(status: number, headers: Record<string, string>, body: unknown): SeenAnswer {
  const text = body === undefined ? '' : JSON.stringify(body);
  return { status, text, header: (name) => headers[name] ?? null };
}

const error = (more: object = {}, id = 'req_1'): object => ({
  error: { code: 'not_found', message: 'There is none.', field: null, request_id: id, ...more },
});

describe('the check of answers against the document', () => {
  const header = { required: true, schema: { type: 'string' } };
  const contract = contractOf({
    paths: {
      '/v1/things/{id}': {
        get: {
          responses: {
            200: {
              headers: { ETag: { required: true, schema: { type: 'string' } }, Link: { schema: { type: 'string' } } },
              content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } },
            },
            404: { $ref: '#/components/responses/NotFound' },
          },
        },
        delete: { responses: { 204: { headers: { 'X-Request-Id': { $ref: '#/components/headers/Id' } } } } },
      },
      '/v1/things/last': { get: { responses: { 204: {} } } },
    },
    components: {
      headers: { Id: header },
      responses: {
        NotFound: { content: { 'application/json': { schema: { $ref: '#/components/schemas/ErrorEnvelope' } } } },
      },
      schemas: {
        Thing: { type: 'object', required: ['size'], properties: { size: { type: 'integer' } } },
        ErrorEnvelope: {
          type: 'object',
          required: ['error'],
          properties: { error: { type: 'object', required: ['code'], properties: { code: { type: 'string' } } } },
        },
      },
    },
  });
  const thing = { ...json, etag: '"1"' };

  for (const [reason, method, target, seen] of [
    ['what was promised', 'GET', '/v1/things/1?x=y', answer(200, thing, { size: 1 })],
    ['a member more', 'GET', '/v1/things/1', answer(200, thing, { size: 1, colour: 'red' })],
    ['a declared error', 'GET', '/v1/things/1', answer(404, json, error())],
    [
      'a replayed error with its first id',
      'GET',
      '/v1/things/1',
      answer(404, { ...json, 'idempotency-replayed': 'true' }, error({}, 'req_0')),
    ],
    ['no body where none is declared', 'DELETE', '/v1/things/1', answer(204, common, undefined)],
    ['words before parameters', 'GET', '/v1/things/last', answer(204, common, undefined)],
    ['HEAD, which has no body', 'HEAD', '/v1/things/1', answer(200, thing, undefined)],
    ['OPTIONS', 'OPTIONS', '/v1/things/1', answer(204, common, undefined)],
    ['another path', 'GET', '/v1/nothing', answer(404, json, error())],
    ['another method', 'PUT', '/v1/things/1', answer(405, json, error())],
    ['what is no part of the API', 'GET', '/healthz', answer(200, {}, 'ok')],
  ] as const) {
    it(`lets pass: ${reason}`, () => {
      assert.deepEqual(contract.breaches(method, target, seen), []);
    });
  }

  for (const [reason, method, target, seen, found] of [
    ['an undeclared status', 'GET', '/v1/things/1', answer(409, json, error()), 'the status is not declared'],
    ['a missing member', 'GET', '/v1/things/1', answer(200, thing, {}), '$.size: is missing'],
    ['a wrong type', 'GET', '/v1/things/1', answer(200, thing, { size: '1' }), '$.size: "1" is not ["integer"]'],
    [
      'a missing header of its own',
      'GET',
      '/v1/things/1',
      answer(200, json, { size: 1 }),
      'the header ETag is missing',
    ],
    [
      'a missing common header',
      'DELETE',
      '/v1/things/1',
      answer(204, { ...common, 'x-ratelimit-reset': undefined as unknown as string }, undefined),
      'the header x-ratelimit-reset is missing',
    ],
    ['a body too many', 'DELETE', '/v1/things/1', answer(204, json, {}), 'there is a body, and none is declared'],
    [
      'another type',
      'GET',
      '/v1/things/1',
      answer(200, { ...thing, 'content-type': 'text/html' }, {}),
      'the type text/html is not declared',
    ],
    [
      'a fifth member in the error',
      'GET',
      '/v1/things/1',
      answer(404, json, error({ hint: 'x' })),
      'the error has the members code,field,hint,message,request_id',
    ],
    [
      'a second member beside the error',
      'GET',
      '/v1/x',
      answer(404, json, { ...error(), ok: false }),
      'the envelope has another member',
    ],
    [
      'an error of another request',
      'GET',
      '/v1/things/1',
      answer(404, json, error({}, 'req_2')),
      'request_id is not X-Request-Id',
    ],
    ['a 5xx without Retry-After', 'GET', '/v1/x', answer(503, json, error()), 'the header Retry-After is missing'],
    ['a 401 without a challenge', 'GET', '/v1/x', answer(401, json, error()), 'no WWW-Authenticate'],
    ['success where no operation is', 'GET', '/v1/x', answer(200, json, {}), 'is answered where no operation is'],
  ] as const) {
    it(`finds ${reason}`, () => {
      const all = contract.breaches(method, target, seen);
      assert.deepEqual(
        all.map((line) => line.slice(line.indexOf(': ') + 2)),
        [found],
      );
    });
  }
});

describe('the JSON Schema checker', () => {
  const follow = (): object => ({ type: 'string', maxLength: 2 });
  for (const [schema, good, bad] of [
    [{ type: ['string', 'null'] }, [null, 'a'], [1]],
    [{ type: 'integer', minimum: 2, maximum: 3 }, [2, 3], [1, 4, 2.5]],
    [{ type: 'string', minLength: 1, maxLength: 2, pattern: '^\\p{L}+$' }, ['a', 'éé'], ['', 'abc', '1']],
    [{ type: 'string', maxLength: 1 }, ['\u{1F600}'], ['ab']],
    [{ type: 'string', format: 'date-time' }, ['2026-01-31T09:30:02.481Z'], ['yesterday']],
    [{ enum: ['a', 'b'] }, ['a'], ['c']],
    [{ const: 'list' }, ['list'], ['lists']],
    [
      { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 2, uniqueItems: true },
      [['a', 'b']],
      [[], ['a', 'a'], [1], ['a', 'b', 'c']],
    ],
    [{ type: 'object', additionalProperties: false, properties: { a: {} } }, [{ a: 1 }, {}], [{ b: 1 }, []]],
    [
      {
        type: 'object',
        additionalProperties: { type: 'string' },
        propertyNames: { pattern: '^[a-z]$' },
        maxProperties: 1,
      },
      [{ a: 'x' }],
      [{ a: 1 }, { ab: 'x' }, { a: 'x', b: 'x' }],
    ],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, ['a', null], [1]],
    [{ oneOf: [{ type: 'string' }, { minLength: 1 }] }, [1], ['a']],
    [{ $ref: '#/x' }, ['ab'], ['abc', 1]],
  ] as const) {
    it(JSON.stringify(schema), () => {
      for (const value of good) assert.deepEqual(breachesOf({ ...schema }, value, follow as never), []);
      for (const value of bad) assert.notDeepEqual(breachesOf({ ...schema }, value, follow as never), []);
    });
  }

  it('refuses a keyword that it does not know', () => {
    assert.throws(() => breachesOf({ multipleOf: 2 }, 4, follow as never), /does not know multipleOf/);
  });
});
