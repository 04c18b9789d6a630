import assert from 'node:assert/strict';
import { z } from 'zod';
import { openapiDocument } from '../../src/api/openapi.ts';
import { route } from '../../src/api/route.ts';
import type { Deprecation, Route } from '../../src/api/route.ts';
import { startHarness } from './harness.ts';
import type { Harness } from './harness.ts';

const deprecation: Deprecation = {
  since: '2026-01-01',
  sunset: '2027-01-01',
  successor: '/v1/new',
  notice: 'http://api.test/docs/changelog',
};

function oldRoute(deprecated: Deprecation): Route {
  return route(
    {
      method: 'POST',
      path: '/v1/old',
      operationId: 'getTemplate',
      description: 'Old.',
      tag: 'any',
      scope: ['send'],
      body: z.strictObject({ a: z.int() }),
      responses: { 200: { description: 'Any.', schema: z.unknown() } },
      deprecated,
    },
    (call) => ({ status: 200, body: { a: call.body.a } }),
  );
}

describe('a deprecated endpoint', () => {
  let h: Harness;
  before(async () => {
    h = await startHarness({ routes: [oldRoute(deprecation)] });
  });
  after(() => h.stop());

  it('says so on every answer, refusals included', async () => {
    const good = await h.send('POST', '/v1/old', { body: { a: 1 } });
    const refused = [await h.send('POST', '/v1/old', { body: {} }), await h.send('POST', '/v1/old', { key: null })];
    assert.deepEqual(
      [good, ...refused].map((answer) => answer.status),
      [200, 400, 401],
    );
    for (const { headers } of [good, ...refused]) {
      assert.equal(headers['deprecation'], '@1767225600');
      assert.equal(headers['sunset'], 'Fri, 01 Jan 2027 00:00:00 GMT');
      assert.match(String(headers['link']), /<http:\/\/api\.test\/docs\/changelog>; rel="deprecation"/);
      assert.match(String(headers['link']), /<\/v1\/new>; rel="successor-version"/);
      assert.match(String(headers.warning), /^299 - ".*\/v1\/new"$/);
    }
  });

  it('shows in the OpenAPI document', () => {
    const document = openapiDocument([oldRoute(deprecation)], { publicUrl: 'http://api.test', version: '1' });
    const { paths } = document as {
      paths: { '/v1/old': { post: { deprecated?: boolean; responses: object } } };
    };
    const { deprecated, responses } = paths['/v1/old'].post;
    assert.equal(deprecated, true);
    assert.ok(Object.hasOwn(responses, '410'));
  });

  it('is gone from its sunset on', async () => {
    h.clock.advance(Date.parse('2027-01-01') - h.clock.now() - 1);
    assert.equal((await h.send('POST', '/v1/old', { body: { a: 1 } })).status, 200);
    h.clock.advance(1);
    const gone = await h.send('POST', '/v1/old', { body: { a: 1 } });
    assert.deepEqual([gone.status, gone.error.code], [410, 'version_gone']);
    assert.match(String(gone.headers['link']), /successor-version/);
  });

  it('cannot be declared with less than a year', () => {
    assert.throws(() => oldRoute({ ...deprecation, sunset: '2026-12-31' }), /12 months/);
    assert.throws(() => oldRoute({ ...deprecation, sunset: 'soon' }), /12 months/);
  });
});

describe('a declared route', () => {
  it('gives its handler checked and typed values', async () => {
    const declared = route(
      {
        method: 'PATCH',
        path: '/v1/things/{id}/parts/{part}',
        operationId: 'updateTemplate',
        description: 'Any.',
        tag: 'any',
        scope: ['send'],
        params: z.strictObject({ id: z.string(), part: z.string().regex(/^\d+$/).transform(Number) }),
        query: z.strictObject({ dry: z.enum(['true', 'false']).default('false') }),
        body: z.strictObject({ name: z.string().trim() }),
        responses: { 200: { description: 'Any.', schema: z.unknown() } },
      },
      (call) => ({
        status: 200,
        body: { ...call.params, dry: call.query.dry, name: call.body.name.length, who: call.caller.keyId },
      }),
    );
    const h = await startHarness({ routes: [declared] });
    const answer = await h.send('PATCH', '/v1/things/%C3%A4%2Fb/parts/7?dry=true', { body: { name: ' x ' } });
    assert.deepEqual(answer.json, { id: 'ä/b', part: 7, dry: 'true', name: 1, who: 'key_one' });
    assert.equal((await h.send('PATCH', '/v1/things/a/parts/x', { body: { name: '' } })).status, 404);
    await h.stop();
  });
});
