import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { isReading } from '../../src/api/route.ts';
import { openapiDocument } from '../../src/api/openapi.ts';
import { integerParameter, listParameter, textsParameter, timeParameter } from '../../src/api/query.ts';
import { Event } from '../../src/api/records.ts';
import { route } from '../../src/api/route.ts';
import { catalogue } from '../../src/base/problem.ts';
import { allEventTypes } from '../../src/events/event.ts';
import { someRoutes, startHarness } from './harness.ts';

type Json = Record<string, unknown>;

const Inner = z.strictObject({ size: z.int().max(9).nullable() }).meta({ id: 'Inner', description: 'A part.' });
const described = route(
  {
    method: 'POST',
    path: '/v1/things/{id}',
    operationId: 'createTemplate',
    description: 'Creates it.',
    tag: 'messages',
    scope: ['template'],
    params: z.strictObject({ id: z.string().regex(/^thg_/) }),
    query: z.strictObject({
      limit: integerParameter(1, 100).default(25).describe('How many.'),
      status: listParameter(['queued', 'sent']).optional(),
      tag: textsParameter(z.string(), 3).optional(),
      since: timeParameter().optional(),
      metadata: z.record(z.string(), z.string()).optional(),
      must: z.string(),
    }),
    body: z.strictObject({ inner: Inner, name: z.string().max(5).describe('Its name.') }),
    bodyExamples: { minimal: { summary: 'The least', value: { inner: { size: 1 }, name: 'a' } } },
    responses: {
      201: {
        description: 'Made.',
        schema: z.strictObject({ inner: Inner }),
        types: ['application/x-ndjson'],
        headers: { Location: 'Where it is.' },
      },
    },
    problems: ['already_exists'],
  },
  () => ({ status: 201, body: { inner: { size: 1 } } }),
);

const document = openapiDocument([...someRoutes, described], { publicUrl: 'http://api.test', version: '1.2.3' });
const at = (...path: string[]): unknown =>
  path.reduce<unknown>((here, step) => (here as Json | undefined)?.[step], document);
const operations = Object.entries(document['paths'] as Record<string, Record<string, Json>>).flatMap(
  ([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

/** Every `$ref` in the document. */
function refs(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(refs);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => (name === '$ref' ? [String(member)] : refs(member)));
}

describe('the OpenAPI document', () => {
  it('says what it is and where', () => {
    assert.equal(document['openapi'], '3.1.0');
    assert.deepEqual(document['servers'], [{ url: 'http://api.test', description: 'This service' }]);
    assert.deepEqual(document['security'], [{ bearerAuth: [] }]);
    assert.equal(at('info', 'version'), '1.2.3');
  });

  it('leads nowhere with a reference', () => {
    const all = refs(document);
    assert.ok(all.length > 50);
    for (const ref of all) assert.ok(at(...ref.replace('#/', '').split('/')) !== undefined, ref);
    assert.ok(!JSON.stringify(document).includes('$defs'));
  });

  it('describes every operation in full', () => {
    const ids = operations.map(({ operation }) => String(operation['operationId']));
    assert.equal(new Set(ids).size, ids.length);
    for (const { operation, path } of operations) {
      assert.match(String(operation['operationId']), /^[a-z][A-Za-z]*$/);
      for (const name of ['summary', 'description']) assert.ok(operation[name], `${path}: ${name}`);
      assert.equal((operation['tags'] as string[]).length, 1);
      assert.ok(Array.isArray(operation['x-required-scopes']));
    }
  });

  it('names what reads by get, list or explain, and nothing else', () => {
    const published = JSON.parse(readFileSync('docs/openapi.json', 'utf8')) as { paths: Record<string, Json> };
    for (const [path, methods] of Object.entries(published.paths))
      for (const [method, { operationId }] of Object.entries(methods as Record<string, { operationId: string }>))
        assert.equal(isReading(operationId), method === 'get', `${path}: ${operationId}`);
  });

  it('has the common headers on every response', () => {
    const common = ['X-Request-Id', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'];
    const resolved = (response: Json): Json =>
      typeof response['$ref'] === 'string' ? (at(...response['$ref'].replace('#/', '').split('/')) as Json) : response;
    for (const { operation, path } of operations) {
      for (const [status, response] of Object.entries(operation['responses'] as Record<string, Json>)) {
        const headers = Object.keys(resolved(response)['headers'] as Json);
        for (const name of common) assert.ok(headers.includes(name), `${path} ${status}: ${name}`);
      }
    }
  });

  it('has only patterns that mean the same with and without the flag `u`', () => {
    const patterns = readFileSync('docs/openapi.json', 'utf8').match(/"pattern": "(?:[^"\\]|\\.)*"/g) ?? [];
    assert.ok(patterns.length > 20);
    for (const line of patterns) {
      const { pattern } = JSON.parse(`{${line}}`) as { pattern: string };
      assert.doesNotMatch(pattern, /\\[pu]|[^\x00-\x7f]/i);
      for (const flags of ['', 'u']) assert.ok(new RegExp(pattern, flags), pattern);
    }
  });

  it('lists every code of the catalogue, once as enum and once as example of its status', () => {
    assert.deepEqual(at('components', 'schemas', 'Error', 'properties', 'code', 'enum'), Object.keys(catalogue));
    const responses = Object.values(at('components', 'responses') as Record<string, Json>);
    const examples = responses.flatMap((response) =>
      Object.keys(((response['content'] as Json)['application/json'] as Json)['examples'] as Json),
    );
    // These two are met where no operation is: at another method, and where one has ended.
    assert.deepEqual([...examples, 'method_not_allowed', 'version_gone'].sort(), Object.keys(catalogue).sort());
  });

  it('makes parameters of the schemas', () => {
    const parameters = at('paths', '/v1/things/{id}', 'post', 'parameters') as Json[];
    const by = (name: string): Json => parameters.find((parameter) => parameter['name'] === name) ?? {};
    assert.deepEqual(by('id'), {
      name: 'id',
      in: 'path',
      required: true,
      schema: { type: 'string', pattern: '^thg_' },
    });
    assert.deepEqual(by('limit'), {
      name: 'limit',
      in: 'query',
      required: false,
      description: 'How many.',
      schema: { type: 'integer', minimum: 1, maximum: 100, default: 25 },
    });
    assert.deepEqual([by('status')['style'], by('status')['explode']], ['form', true]);
    assert.deepEqual([by('tag')['style'], by('tag')['explode']], ['form', true]);
    assert.deepEqual([by('metadata')['style'], by('metadata')['explode']], ['deepObject', true]);
    assert.equal((by('since')['schema'] as Json)['format'], 'date-time');
    assert.equal(by('must')['required'], true);
    assert.ok(parameters.some((parameter) => parameter['$ref'] === '#/components/parameters/IdempotencyKey'));
  });

  it('closes requests, opens answers, and shares what has a name', () => {
    const request = at('paths', '/v1/things/{id}', 'post', 'requestBody', 'content', 'application/json') as Json;
    assert.equal((request['schema'] as Json)['additionalProperties'], false);
    assert.deepEqual(Object.keys(request['examples'] as Json), ['minimal']);
    const answer = at('paths', '/v1/things/{id}', 'post', 'responses', '201', 'content') as Record<string, Json>;
    assert.deepEqual(Object.keys(answer), ['application/json', 'application/x-ndjson']);
    assert.deepEqual(answer['application/x-ndjson'], {}, 'generators of clients type the JSON');
    assert.equal((answer['application/json']?.['schema'] as Json)['additionalProperties'], undefined);
    assert.deepEqual(at('components', 'schemas', 'Inner', 'properties', 'size', 'type'), ['integer', 'null']);
    assert.ok(!JSON.stringify(document).includes('"nullable"'));
  });

  it('tells what webhooks carry: each kind, the three headers, the event as the event stream has it', () => {
    const webhooks = document['webhooks'] as Record<string, { post: Json }>;
    assert.deepEqual(Object.keys(webhooks), [...allEventTypes]);
    for (const [type, { post }] of Object.entries(webhooks)) {
      const parameters = post['parameters'] as Json[];
      assert.deepEqual(
        parameters.slice(0, 3).map(({ name }) => name),
        ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
      );
      const { content } = post['requestBody'] as { content: Record<string, Json> };
      const { schema, examples } = content['application/json'] ?? assert.fail(type);
      assert.deepEqual(schema, { $ref: '#/components/schemas/Event' });
      const { value } = (examples as Record<string, { value: unknown }>)[type] ?? assert.fail(type);
      // A member that the record does not know would be lost.
      assert.deepEqual(Event.parse(value), value);
      assert.equal((value as { type: string }).type, type);
      assert.deepEqual(post['security'], []);
    }
  });

  it('is served without a key, with an ETag, compressed, and not again to who has it', async () => {
    const h = await startHarness();
    const answer = await h.send('GET', '/v1/openapi.json', { key: null });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['cache-control'], 'no-cache');
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
    assert.ok(answer.headers['x-ratelimit-limit']);
    const { paths } = answer.json as { paths: Json };
    assert.ok(Object.hasOwn(paths, '/v1/openapi.json') && !Object.hasOwn(paths, '/healthz'));
    const etag = String(answer.headers.etag);
    for (const tag of [etag, etag.replace('W/', ''), `"other", ${etag}`, '*']) {
      const again = await h.send('GET', '/v1/openapi.json', { key: null, headers: { 'if-none-match': tag } });
      assert.deepEqual([again.status, again.text, again.headers.etag], [304, '', etag], tag);
      assert.ok(again.headers['x-request-id']);
    }
    assert.equal(
      (await h.send('GET', '/v1/openapi.json', { key: null, headers: { 'if-none-match': '"x"' } })).status,
      200,
    );
    const packed = await h.send('GET', '/v1/openapi.json', { key: null, headers: { 'accept-encoding': 'gzip' } });
    assert.equal(packed.headers['content-encoding'], 'gzip');
    assert.ok(packed.bytes.length < answer.bytes.length / 3);
    await h.stop();
  });
});
