/** The examples of the OpenAPI document: each request is one that works, each answer one that could come. */
import assert from 'node:assert/strict';
import type { Json } from '../../src/api/openapi.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { breachesOf, type Follow } from '../support/tools/json-schema.ts';
import { publishedDocument } from '../support/tools/published.ts';
import { worldFor, type World } from '../support/harness/world.ts';

interface Example {
  value: unknown;
}

interface Content {
  /** Absent for a stream. */
  schema?: Json;
  examples?: Record<string, Example>;
}

interface Operation {
  operationId: string;
  parameters?: { name?: string; description?: string }[];
  requestBody?: { content: Record<string, Content> };
  responses: Record<string, { $ref?: string; content?: Record<string, Content> }>;
}

describe('the examples of the OpenAPI document', () => {
  let app: TestApp;
  let world: World;
  let operations: (Operation & { method: string; path: string })[];
  let follow: Follow;
  let schemas: Record<string, Json>;
  before(async () => {
    const document = await publishedDocument();
    follow = (ref) =>
      ref
        .slice(2)
        .split('/')
        .reduce<unknown>((here, step) => (here as Json)[step], document) as Json;
    schemas = (document['components'] as { schemas: Record<string, Json> }).schemas;
    const paths = document['paths'] as Record<string, Record<string, Operation>>;
    operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
    );
    app = await startTestApp();
    world = await worldFor(app);
  });
  after(() => app.stop());

  it('are there for every request that has a body', () => {
    const without = operations.filter(({ requestBody }) => {
      const content = requestBody?.content['application/json'];
      return content !== undefined && Object.keys(content.examples ?? {}).length === 0;
    });
    assert.deepEqual(
      without.map(({ operationId }) => operationId),
      [],
    );
  });

  it('are there for every answer to a success', () => {
    const without = operations.flatMap(({ operationId, responses }) =>
      Object.entries(responses).flatMap(([status, { content = {} }]) =>
        Number(status) >= 300
          ? []
          : Object.values(content)
              .filter(({ schema, examples = {} }) => schema !== undefined && Object.keys(examples).length === 0)
              .map(() => `${operationId} ${status}`),
      ),
    );
    assert.deepEqual(without, []);
  });

  it('stand beside a description of every property and parameter', () => {
    const missing: string[] = [];
    const look = (schema: Json, where: string): void => {
      const {
        properties = {},
        items,
        anyOf = [],
        oneOf = [],
        additionalProperties,
      } = schema as {
        properties?: Record<string, Json>;
        items?: Json;
        anyOf?: Json[];
        oneOf?: Json[];
        additionalProperties?: Json | boolean;
      };
      for (const [name, property] of Object.entries(properties)) {
        const { description } =
          property['$ref'] === undefined ? property : { ...follow(property['$ref'] as string), ...property };
        // A constant says by its value what it is.
        if (description === undefined && property['const'] === undefined) missing.push(`${where}.${name}`);
        look(property, `${where}.${name}`);
      }
      const below = [
        items,
        ...anyOf,
        ...oneOf,
        typeof additionalProperties === 'object' ? additionalProperties : undefined,
      ];
      for (const inner of below) if (inner !== undefined) look(inner, where);
    };
    for (const [name, schema] of Object.entries(schemas)) {
      if (schema['description'] === undefined) missing.push(name);
      look(schema, name);
    }
    for (const { operationId, parameters = [], responses, requestBody } of operations) {
      for (const { name, description } of parameters)
        if (name !== undefined && description === undefined) missing.push(`${operationId} ${name}`);
      for (const { content = {} } of [...Object.values(responses), requestBody ?? {}])
        for (const { schema = {} } of Object.values(content)) look(schema, operationId);
    }
    assert.deepEqual(missing, []);
  });

  it('requests: each is accepted', async () => {
    const seen: string[] = [];
    // Other examples use the template that this one makes.
    const first = operations.toSorted(
      (a, b) => Number(b.operationId === 'createTemplate') - Number(a.operationId === 'createTemplate'),
    );
    for (const { operationId, method, path, requestBody } of first) {
      for (const [name, { value }] of Object.entries(requestBody?.content['application/json']?.examples ?? {})) {
        const answer = await app.request(method, world.targetOf(path), value);
        // The domain of the example is the one that all others send from, so it is there.
        const isThere = operationId === 'createDomain' && answer.status === 409;
        assert.ok(answer.status < 300 || isThere, `${operationId}, example ${name}: ${answer.status} ${answer.text}`);
        seen.push(name);
        // One example pauses the endpoint that others need.
        if (operationId === 'updateWebhook') await app.request('PATCH', world.targetOf(path), { enabled: true });
        if (operationId === 'createTemplate') await app.request('POST', '/v1/templates/welcome/publish');
      }
    }
    assert.ok(seen.length >= 15, String(seen.length));
  });

  it('answers: each keeps to its schema', () => {
    const contents = operations.flatMap(({ operationId, responses }) =>
      Object.entries(responses).flatMap(([status, response]) => {
        const { content = {} } = (response.$ref === undefined ? response : follow(response.$ref)) as typeof response;
        return Object.values(content).map((one) => ({ ...one, name: `${operationId} ${status}` }));
      }),
    );
    let checked = 0;
    for (const { name, schema = {}, examples = {} } of contents) {
      for (const [example, { value }] of Object.entries(examples)) {
        assert.deepEqual(breachesOf(schema, value, follow), [], `${name}, example ${example}`);
        checked++;
      }
    }
    assert.ok(checked > 500, String(checked));
  });
});
