/**
 * Requests made at random from the OpenAPI document, right ones and wrong ones, against the whole program: whatever is asked,
 * the answer is one that the document promises, and never a 5xx. 600 of them here; `RANDOM_REQUESTS=6000 npx mocha test/journeys/random-requests.test.ts` makes 6,000.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Json } from '../../src/api/openapi.ts';
import { search } from '../../src/client/transport.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import type { Follow } from '../support/tools/json-schema.ts';
import { publishedDocument } from '../support/tools/published.ts';
import { junk, valuesOf } from '../support/tools/schema-values.ts';
import { worldFor, type World } from '../support/harness/world.ts';

const REQUESTS = Number(process.env['RANDOM_REQUESTS'] ?? 600);

interface Operation {
  operationId: string;
  parameters?: { name?: string; in?: string; schema?: Json }[];
  requestBody?: { content: Record<string, { schema: Json; examples?: Record<string, { value: unknown }> }> };
}

interface Asked {
  method: string;
  target: string;
  body: unknown;
  headers: Record<string, string>;
  /** Without a key, or with a wrong one. */
  key?: string | null;
}

describe('random requests', function () {
  this.timeout(300_000);
  let app: TestApp;
  let world: World;
  let document: Json;
  before(async () => {
    document = await publishedDocument();
    app = await startTestApp();
    world = await worldFor(app);
  });
  after(() => app.stop());

  it(`${REQUESTS} of them are all answered as the document says`, async () => {
    const statuses = new Map<number, number>();
    const operations = new Set<string>();
    await fc.assert(
      fc.asyncProperty(requests(), async ({ operationId, method, target, body, headers, key }) => {
        // The harness holds each answer against the document: status, headers, body, the four members of an error.
        const answer = await app.request(method, target, body, { headers, ...(key === undefined ? {} : { key }) });
        assert.ok(answer.status < 500, `${answer.status} ${answer.text}`);
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        if (answer.status < 300) operations.add(operationId);
      }),
      { numRuns: REQUESTS, endOnFailure: true },
    );
    // Requests that all fail, or all succeed, would show little.
    const good = [...statuses].reduce((sum, [status, count]) => sum + (status < 300 ? count : 0), 0);
    assert.ok(good > REQUESTS * 0.15 && good < REQUESTS * 0.8, JSON.stringify([...statuses]));
    assert.ok(operations.size > 20, [...operations].join());
  });

  function requests(): fc.Arbitrary<Asked & { operationId: string }> {
    const paths = document['paths'] as Record<string, Record<string, Operation>>;
    const follow: Follow = (ref) =>
      ref
        .slice(2)
        .split('/')
        .reduce<unknown>((here, step) => (here as Json)[step], document) as Json;
    const all = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) =>
        fc
          .record({
            target: targets(path),
            query: queries(operation, follow),
            body: method === 'get' ? fc.constant(undefined) : bodies(operation, follow),
            headers: heads,
            key: keys,
          })
          .map(({ target, query, key, ...rest }) => ({
            ...rest,
            operationId: operation.operationId,
            method: method.toUpperCase(),
            target: target + query,
            ...(key === undefined ? {} : { key }),
          })),
      ),
    );
    return fc.oneof(...all);
  }

  /** Ids that exist, that do not, and that cannot. */
  function targets(path: string): fc.Arbitrary<string> {
    const strange = fc
      .string({ unit: 'grapheme', maxLength: 30 })
      .filter((text) => text.isWellFormed() && text !== '.' && text !== '..');
    const odd = fc.oneof(
      strange.map(encodeURIComponent),
      fc.constantFrom('%zz', '%00', '%2F', 'msg_01jz5w8q3hf2m9d4x6k7c1b0na', 'x'.repeat(500)),
    );
    return fc.oneof(
      { arbitrary: fc.constant(world.targetOf(path)), weight: 6 },
      { arbitrary: odd.map((part) => path.replaceAll(/\{\w+\}/g, () => part)), weight: 1 },
    );
  }

  function queries({ parameters = [] }: Operation, follow: Follow): fc.Arbitrary<string> {
    const known = parameters.flatMap(({ name = '', in: place, schema = {} }) => {
      // Time stands still here: a request that waits for it would never be answered.
      if (place !== 'query' || name === 'wait') return [];
      return [
        fc.option(
          valuesOf(schema, follow).map((value): [string, unknown] => [name, value]),
          { freq: 6, nil: null },
        ),
      ];
    });
    const extra = fc.oneof(
      { arbitrary: fc.constant(null), weight: 20 },
      {
        arbitrary: fc.tuple(
          fc.constantFrom('colour', 'limit', 'wait', 'a[b]', '__proto__'),
          fc.constantFrom('', 'x', '-1'),
        ),
        weight: 1,
      },
    );
    return fc.tuple(fc.tuple(...known), extra).map(([pairs, more]) => {
      const given = [...pairs, more].filter((pair) => pair !== null);
      return search(Object.fromEntries(given));
    });
  }

  function bodies({ requestBody }: Operation, follow: Follow): fc.Arbitrary<unknown> {
    const content = requestBody?.content['application/json'];
    if (content === undefined)
      return fc.oneof(
        { arbitrary: fc.constant(undefined), weight: 9 },
        { arbitrary: fc.constantFrom('{}', '{"a":1}', '['), weight: 1 },
      );
    const examples = Object.values(content.examples ?? {}).map(({ value }) => value as Json);
    const whole = valuesOf(content.schema, follow);
    // An example with some of its members replaced comes further than what is all chance.
    const near = fc.tuple(fc.constantFrom(...examples), fc.oneof(fc.constant({}), whole)).map(([example, other]) => {
      const members = typeof other === 'object' && other !== null ? Object.entries(other) : [];
      return { ...example, ...Object.fromEntries(members.filter((_, index) => index % 3 === 0)) };
    });
    return fc.oneof(
      { arbitrary: fc.constantFrom(...examples), weight: 3 },
      { arbitrary: near, weight: 5 },
      { arbitrary: whole, weight: 5 },
      { arbitrary: junk.map((value) => JSON.stringify(value)), weight: 1 },
      {
        arbitrary: fc.constantFrom(
          undefined,
          '',
          '{',
          '{"to":1,"to":2}',
          '\ufeff{}',
          `${'['.repeat(40)}${']'.repeat(40)}`,
        ),
        weight: 1,
      },
    );
  }

  const heads: fc.Arbitrary<Record<string, string>> = fc.oneof(
    { arbitrary: fc.constant({}), weight: 12 },
    {
      arbitrary: fc
        .constantFrom('key-1', 'key-2', '"quoted"', 'x'.repeat(300), 'a b')
        .map((key) => ({ 'idempotency-key': key })),
      weight: 2,
    },
    {
      arbitrary: fc.constantFrom<Record<string, string>>(
        { accept: 'text/html' },
        { accept: 'application/x-ndjson' },
        { accept: '*/*;q=0' },
        { 'content-type': 'text/plain' },
        { 'accept-encoding': 'br' },
        { 'if-none-match': '*' },
        { 'content-encoding': 'deflate' },
      ),
      weight: 2,
    },
  );

  const keys = fc.oneof(
    { arbitrary: fc.constant(undefined), weight: 40 },
    { arbitrary: fc.constantFrom(null, 'ak_live_nobody', 'x y'), weight: 1 },
  );
});
