import assert from 'node:assert/strict';
import { Router } from '@koa/router';
import fc from 'fast-check';
import { createPathTable } from '../../src/api/path-table.ts';

const routes = [
  ['GET', '/v1/messages'],
  ['POST', '/v1/messages'],
  ['GET', '/v1/messages/{id}'],
  ['GET', '/v1/messages/{id}/why'],
  ['POST', '/v1/messages/{id}/deliveries/{delivery_id}/resend'],
  ['GET', '/v1/messages/export'],
  ['DELETE', '/v1/messages/{id}'],
  ['GET', '/t/c/{token}'],
].map(([method = '', path = '']) => ({ method, path }));
const table = createPathTable(routes);

describe('api/path-table', () => {
  for (const [method, path, pattern, params] of [
    ['GET', '/v1/messages', '/v1/messages', {}],
    ['GET', '/v1/messages/msg_1', '/v1/messages/{id}', { id: 'msg_1' }],
    ['GET', '/v1/messages/msg_1/why', '/v1/messages/{id}/why', { id: 'msg_1' }],
    [
      'POST',
      '/v1/messages/a/deliveries/b/resend',
      '/v1/messages/{id}/deliveries/{delivery_id}/resend',
      { id: 'a', delivery_id: 'b' },
    ],
    // A literal goes first, and where it has no such method the parameter has its turn.
    ['GET', '/v1/messages/export', '/v1/messages/export', {}],
    ['DELETE', '/v1/messages/export', '/v1/messages/{id}', { id: 'export' }],
    ['GET', '/v1/messages/export/why', '/v1/messages/{id}/why', { id: 'export' }],
    ['GET', '/v1/messages/a%2Fb%40c', '/v1/messages/{id}', { id: 'a/b@c' }],
    ['GET', '/v1/messages/%E0%A4%A', '/v1/messages/{id}', { id: '%E0%A4%A' }],
    ['GET', '/t/c/__proto__', '/t/c/{token}', { token: '__proto__' }],
  ] as const) {
    it(`finds ${method} ${path}`, () => {
      const found = table.find(method, path);
      assert.deepEqual({ pattern: found?.item.path, params: found?.params }, { pattern, params });
    });
  }

  for (const [why, method, path] of [
    ['another method', 'PUT', '/v1/messages'],
    ['a slash at the end', 'GET', '/v1/messages/'],
    ['an empty parameter', 'GET', '/v1/messages//why'],
    ['another case', 'GET', '/V1/messages'],
    ['a segment too many', 'GET', '/t/c/a/b'],
    ['no path', 'GET', ''],
    ['another form of target', 'GET', '*'],
    ['very many segments', 'GET', '/v1/messages' + '/a'.repeat(8000)],
  ] as const)
    it(`finds nothing: ${why}`, () => {
      assert.equal(table.find(method, path), null);
    });

  it('agrees with the router about what is there', () => {
    const router = new Router({ sensitive: true, strict: true });
    for (const { method, path } of routes)
      router.register(path.replaceAll(/\{([^}]+)\}/g, ':$1'), [method], () => undefined);
    const segment = fc.constantFrom(
      'v1',
      'messages',
      'export',
      'why',
      't',
      'c',
      'deliveries',
      'resend',
      'x',
      '',
      'a%40b',
    );
    const path = fc.array(segment, { maxLength: 7 }).map((segments) => `/${segments.join('/')}`);
    fc.assert(
      fc.property(fc.constantFrom('GET', 'POST', 'DELETE', 'PUT'), path, (method, at) => {
        assert.equal(table.find(method, at) !== null, router.match(at, method).route);
      }),
      { numRuns: 2000 },
    );
  });
});
