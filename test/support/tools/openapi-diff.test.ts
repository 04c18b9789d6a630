/** Changes planted into the real document: breaking ones are found and named, additions pass. */
import assert from 'node:assert/strict';
import type { Json } from '../../../src/api/openapi.ts';
import { breakingChanges } from './openapi-diff.ts';
import { publishedDocument } from './published.ts';

/** The parts of the document that the planted changes touch. */
interface Tree {
  [member: string]: Tree;
}

describe('openapi:diff', () => {
  let document: Json;
  before(async () => {
    document = await publishedDocument();
  });

  /** The findings when the document is changed this way. */
  function found(change: (document: Tree) => void): string[] {
    const after = structuredClone(document);
    change(after as unknown as Tree);
    return breakingChanges(document, after);
  }

  const plant = (value: unknown): Tree => value as Tree;
  const operation = (tree: Tree, method: string, path: string): Tree => tree['paths']![path]![method]!;
  const schema = (tree: Tree, name: string): Tree => tree['components']!['schemas']![name]!;
  const parameter = (tree: Tree, method: string, path: string, name: string): Tree =>
    Object.values(operation(tree, method, path)['parameters']!).find((one) => (one['name'] as unknown) === name)!;
  const without = (list: Tree, value: string): Tree =>
    plant((list as unknown as string[]).filter((one) => one !== value));
  const added = (list: Tree, value: unknown): Tree => plant([...(list as unknown as unknown[]), value]);

  it('finds nothing where nothing has changed', () => {
    assert.deepEqual(
      found(() => undefined),
      [],
    );
  });

  for (const [reason, change, line] of [
    ['a path that is gone', (d) => delete d['paths']!['/v1/streams'], '/v1/streams: is gone'],
    ['a method that is gone', (d) => delete d['paths']!['/v1/streams']!['post'], '/v1/streams post: is gone'],
    [
      'another operationId',
      (d) => (operation(d, 'get', '/v1/streams')['operationId'] = plant('streams')),
      'GET /v1/streams: is called streams now',
    ],
    [
      'a scope that opened it',
      (d) => (operation(d, 'post', '/v1/messages')['x-required-scopes'] = plant(['send'])),
      'POST /v1/messages: the scope campaign does not open it any more',
    ],
    [
      'a parameter that is gone',
      (d) => (operation(d, 'get', '/v1/streams')['parameters'] = plant([])),
      'GET /v1/streams limit (query): is gone',
    ],
    [
      'a new parameter that is required',
      (d) =>
        (operation(d, 'get', '/v1/streams')['parameters'] = added(operation(d, 'get', '/v1/streams')['parameters']!, {
          name: 'must',
          in: 'query',
          required: true,
          schema: {},
        })),
      'GET /v1/streams: the parameter must (query) is required',
    ],
    [
      'a parameter that is required now',
      (d) => (parameter(d, 'get', '/v1/messages', 'to')['required'] = plant(true)),
      'GET /v1/messages: the parameter to (query) is required',
    ],
    [
      'a lower limit of a parameter',
      (d) => (parameter(d, 'get', '/v1/messages', 'limit')['schema']!['maximum'] = plant(50)),
      'GET /v1/messages limit (query): maximum is 50, and was 100',
    ],
    [
      'a value of a parameter that is gone',
      (d) => (parameter(d, 'get', '/v1/messages', 'sort')['schema']!['enum'] = plant(['created_at'])),
      'GET /v1/messages sort (query): "-created_at" is not taken any more',
    ],
    [
      'a body that is required now',
      (d) => (operation(d, 'post', '/v1/messages/{id}/cancel')['requestBody'] = plant({ required: true, content: {} })),
      'POST /v1/messages/{id}/cancel: a body is required',
    ],
    [
      'a member that is required now',
      (d) => (schema(d, 'NewDomain')['required'] = added(schema(d, 'NewDomain')['required']!, 'track_opens')),
      'POST /v1/domains application/json.track_opens: is required',
    ],
    [
      'a member that is not taken any more',
      (d) => delete schema(d, 'NewDomain')['properties']!['track_opens'],
      'POST /v1/domains application/json.track_opens: is not taken any more',
    ],
    [
      'a member of one form of a request',
      (d) => delete schema(d, 'BulkMessage')['properties']!['on_error'],
      'POST /v1/messages application/json.on_error: is not taken any more',
    ],
    [
      'a form of a request that is gone',
      (d) =>
        (operation(d, 'post', '/v1/messages')['requestBody']!['content']!['application/json']!['schema'] = plant({
          $ref: '#/components/schemas/BulkMessage',
        })),
      'POST /v1/messages application/json.recipients: is required',
    ],
    [
      'a shorter text',
      (d) => (schema(d, 'NewStream')['properties']!['name']!['maxLength'] = plant(3)),
      /name: maxLength is 3/,
    ],
    [
      'another pattern',
      (d) => (schema(d, 'NewStream')['properties']!['slug']!['pattern'] = plant('^x$')),
      /slug: pattern is "\^x\$"/,
    ],
    [
      'null that is not taken any more',
      (d) => (schema(d, 'SingleMessage')['properties']!['html']!['type'] = plant('string')),
      'POST /v1/messages application/json.html: null is not taken any more',
    ],
    [
      'a success that is gone',
      (d) => delete operation(d, 'post', '/v1/messages')['responses']!['202'],
      'POST /v1/messages 202: is gone',
    ],
    [
      'a type of answer that is gone',
      (d) => delete operation(d, 'get', '/v1/messages/{id}/raw')['responses']!['200']!['content']!['message/rfc822'],
      'GET /v1/messages/{id}/raw 200 message/rfc822: is gone',
    ],
    [
      'a header that is gone',
      (d) => delete operation(d, 'get', '/v1/events')['responses']!['200']!['headers']!['X-Request-Id'],
      'GET /v1/events 200 X-Request-Id: is gone',
    ],
    [
      'a member of an answer that is gone',
      (d) => delete schema(d, 'Stream')['properties']!['priority'],
      /200 application\/json\.data\[\]\.priority: is gone/,
    ],
    [
      'a member of an answer that can be absent',
      (d) => (schema(d, 'Stream')['required'] = without(schema(d, 'Stream')['required']!, 'slug')),
      /slug: can be absent now/,
    ],
    [
      'null that can come now',
      (d) => (schema(d, 'Message')['properties']!['stream']!['type'] = plant(['string', 'null'])),
      /stream: can be null now/,
    ],
    [
      'another name of the record',
      (d) => (schema(d, 'Domain')['properties']!['object']!['const'] = plant('site')),
      /object: is not "domain" any more/,
    ],
    ['a kind of webhook that is gone', (d) => delete d['webhooks']!['clicked'], 'webhook clicked: is gone'],
    [
      'a member of a webhook that is gone',
      (d) => delete schema(d, 'Event')['properties']!['sequence'],
      'webhook sent application/json.sequence: is gone',
    ],
  ] as [string, (document: Tree) => unknown, string | RegExp][]) {
    it(`finds ${reason}`, () => {
      const lines = found(change);
      assert.ok(
        lines.some((one) => (typeof line === 'string' ? one === line : line.test(one))),
        lines.join('\n') || 'nothing was found',
      );
    });
  }

  for (const [reason, change] of [
    ['a new path', (d) => (d['paths']!['/v1/new'] = plant({ get: { responses: {} } }))],
    ['a new method', (d) => (d['paths']!['/v1/streams']!['put'] = plant({ responses: {} }))],
    [
      'another scope that opens it',
      (d) => (operation(d, 'get', '/v1/streams')['x-required-scopes'] = plant(['stream:read', 'settings'])),
    ],
    [
      'a new parameter',
      (d) =>
        (operation(d, 'get', '/v1/streams')['parameters'] = added(operation(d, 'get', '/v1/streams')['parameters']!, {
          name: 'may',
          in: 'query',
          schema: {},
        })),
    ],
    [
      'a member that may be given',
      (d) => (schema(d, 'NewDomain')['properties']!['colour'] = plant({ type: 'string' })),
    ],
    ['a member that need not be given any more', (d) => (schema(d, 'NewDomain')['required'] = plant([]))],
    ['a longer text', (d) => (schema(d, 'NewStream')['properties']!['name']!['maxLength'] = plant(9999))],
    [
      'another value that is taken',
      (d) =>
        (parameter(d, 'get', '/v1/messages', 'sort')['schema']!['enum'] = plant(['-created_at', 'created_at', 'to'])),
    ],
    [
      'null that is taken, too',
      (d) => (schema(d, 'NewDomain')['properties']!['name']!['type'] = plant(['string', 'null'])),
    ],
    ['a member more in an answer', (d) => (schema(d, 'Message')['properties']!['colour'] = plant({ type: 'string' }))],
    [
      'a value more in an answer',
      (d) =>
        (schema(d, 'Domain')['properties']!['status']!['enum'] = added(
          schema(d, 'Domain')['properties']!['status']!['enum']!,
          'paused',
        )),
    ],
    [
      'an error more',
      (d) =>
        (operation(d, 'get', '/v1/streams')['responses']!['409'] = plant({ $ref: '#/components/responses/Conflict' })),
    ],
    ['a kind of event more', (d) => (d['webhooks']!['paused'] = d['webhooks']!['sent']!)],
    ['other words', (d) => (operation(d, 'get', '/v1/streams')['description'] = plant('Other words.'))],
  ] as [string, (document: Tree) => unknown][]) {
    it(`lets pass ${reason}`, () => {
      assert.deepEqual(found(change), []);
    });
  }
});
