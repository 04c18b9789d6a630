import assert from 'node:assert/strict';
import { catalogue } from '../../src/base/problem.ts';
import {
  ApiError,
  AuthError,
  ConflictError,
  errorOf,
  PosthornError,
  RateLimitError,
  ServerError,
  ValidationError,
} from '../../src/client/errors.ts';

const envelope = (more: object): string =>
  JSON.stringify({ error: { code: 'x', message: 'Words.', field: null, request_id: 'req_1', ...more } });
const none = new Headers();

describe('client/errors', () => {
  const classes = [
    [400, ValidationError],
    [401, AuthError],
    [403, AuthError],
    [404, ApiError],
    [405, ApiError],
    [409, ConflictError],
    [413, ValidationError],
    [415, ValidationError],
    [429, RateLimitError],
    [500, ServerError],
    [503, ServerError],
    [504, ServerError],
  ] as const;
  for (const [status, type] of classes) {
    it(`${status} is a ${type.name}`, () => {
      const error = errorOf(status, none, envelope({}), 0);
      assert.equal(error.constructor, type);
      assert.equal(error.name, type.name);
      assert.ok(error instanceof ApiError && error instanceof PosthornError && error instanceof Error);
    });
  }

  it('has a class for every code of the catalogue, its members, and its message', () => {
    for (const [code, { status }] of Object.entries(catalogue)) {
      const error = errorOf(status, none, envelope({ code, field: 'to' }), 0);
      const { message, field, requestId, retryAfter } = error;
      assert.deepEqual(
        [error.code, error.status, message, field, requestId, retryAfter],
        [code, status, 'Words.', 'to', 'req_1', null],
      );
    }
  });

  for (const [reason, header, seconds] of [
    ['seconds', '30', 30],
    ['a date, of a proxy', 'Sat, 31 Jan 2026 09:30:05 GMT', 5],
    ['a date that is past', 'Sat, 31 Jan 2026 09:00:00 GMT', 0],
    ['nonsense', 'soon', null],
    ['more digits than any time has', '9'.repeat(400), null],
  ] as const) {
    it(`reads Retry-After: ${reason}`, () => {
      const now = Date.parse('2026-01-31T09:30:00Z');
      assert.equal(errorOf(503, new Headers({ 'retry-after': header }), '', now).retryAfter, seconds);
    });
  }

  for (const [reason, text] of [
    ['a page of a proxy', '<html>502</html>'],
    ['nothing', ''],
    ['JSON of something else', '{"error":"no"}'],
    ['a half envelope', '{"error":{"code":7,"message":"x"}}'],
    ['null', 'null'],
  ] as const) {
    it(`says so where the answer is no error of the service: ${reason}`, () => {
      const error = errorOf(502, new Headers({ 'x-request-id': 'req_2' }), text, 0);
      assert.deepEqual([error.code, error.status, error.requestId], ['unreadable_answer', 502, 'req_2']);
      assert.match(error.message, /HTTP 502.*base URL/);
    });
  }
});
