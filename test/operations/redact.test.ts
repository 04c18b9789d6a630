import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { redactedBody } from '../../src/operations/redact.ts';

const kept = (body: object): unknown => JSON.parse(redactedBody(body));

/** Returns the names of all members that requests of the API can have. */
function memberNames(): Set<string> {
  const names = new Set<string>();
  const document = JSON.parse(readFileSync(path.join(import.meta.dirname, '../../docs/openapi.json'), 'utf8')) as {
    paths: Record<string, Record<string, { requestBody?: unknown }>>;
    components: { schemas: Record<string, unknown> };
  };
  const seen = new Set<unknown>();
  function walk(schema: unknown): void {
    if (typeof schema !== 'object' || schema === null || seen.has(schema)) return;
    seen.add(schema);
    const { $ref, properties, ...rest } = schema as { $ref?: string; properties?: Record<string, unknown> };
    if ($ref !== undefined) walk(document.components.schemas[$ref.split('/').at(-1) ?? '']);
    for (const [name, of] of Object.entries(properties ?? {})) {
      names.add(name);
      walk(of);
    }
    for (const part of Object.values(rest)) walk(part);
  }
  for (const operations of Object.values(document.paths))
    for (const { requestBody } of Object.values(operations)) {
      const { content } = (requestBody ?? {}) as { content?: Record<string, { schema: unknown }> };
      walk(content?.['application/json']?.schema);
    }
  return names;
}

describe('operations/redact', () => {
  const rows: [why: string, body: object, expected: object][] = [
    [
      'an ordinary mail keeps what it was refused for',
      {
        from: 'a@x.test',
        to: ['b@y.test'],
        subject: 'Hi',
        html: '<p>x</p>',
        text: 'x',
        track_opens: true,
        send_at: null,
      },
      {
        ...{ from: 'a@x.test', to: ['b@y.test'], subject: 'Hi', html: '(8 characters)', text: '(1 characters)' },
        ...{ track_opens: true, send_at: null },
      },
    ],
    [
      'an address loses its user and password',
      { url: 'https://user:pass@word@x.test:8443/a@b?c=d@e', description: 'see ftp://u@y.test and a@z.test' },
      { url: 'https://(hidden)@x.test:8443/a@b?c=d@e', description: 'see ftp://(hidden)@y.test and a@z.test' },
    ],
    [
      'files keep their names',
      { attachments: [{ filename: 'a.pdf', content: 'QUJD' }] },
      { attachments: [{ filename: 'a.pdf', content: '(4 characters)' }] },
    ],
    [
      'variables, headers and metadata keep their names',
      { variables: { reset: 'https://x.test/?t=1', n: 7, deep: [{ a: 'b' }] }, metadata: { order: '17' } },
      {
        variables: { reset: '(19 characters)', n: '(hidden)', deep: [{ a: '(1 characters)' }] },
        metadata: { order: '(2 characters)' },
      },
    ],
    [
      'secrets are hidden by their names, whatever their type',
      { password: 'p', api_key: ['x'], webhook_secret: { a: 1 }, Authorization: 'Bearer x', key: 'k', token: null },
      {
        ...{ password: '(hidden)', api_key: '(hidden)', webhook_secret: '(hidden)' },
        ...{ Authorization: '(hidden)', key: '(hidden)', token: null },
      },
    ],
    [
      'a request that is written for another service has its contents under other names',
      {
        ...{ From: 'a@x.test', HtmlBody: '<a href="https://x.test/?t=1">', TemplateModel: { code: 123456 } },
        ...{ Attachments: [{ Name: 'a.pdf', Content: 'QUJD' }], content: [{ type: 'text/html', value: 'x' }] },
        attachments: [{ name: 'a.pdf', data: 'QUJD' }],
        recipients: [{ to: 'b@y.test', htmlBody: 'x' }],
      },
      {
        ...{ From: '(8 characters)', HtmlBody: '(30 characters)', TemplateModel: { code: '(hidden)' } },
        Attachments: [{ Name: '(5 characters)', Content: '(4 characters)' }],
        content: [{ type: '(9 characters)', value: '(1 characters)' }],
        attachments: [{ name: 'a.pdf', data: '(4 characters)' }],
        recipients: [{ to: 'b@y.test', htmlBody: '(1 characters)' }],
      },
    ],
    [
      'sample values of a template',
      { sample_variables: { code: '123456' } },
      { sample_variables: { code: '(6 characters)' } },
    ],
    ['lone surrogates', { subject: 'a\ud800' }, { subject: 'a\ufffd' }],
  ];
  for (const [why, body, expected] of rows)
    it(why, () => {
      assert.deepEqual(kept(body), expected);
    });

  it('keeps the values of all members of the API but those that may hold what is private', () => {
    const hidden = [...memberNames()].filter((name) => {
      const { [name]: value } = kept({ [name]: 'x' }) as Record<string, unknown>;
      return value !== 'x';
    });
    assert.deepEqual(hidden.sort(), [
      ...['content', 'default', 'headers', 'html', 'metadata', 'sample_variables', 'text', 'variables'],
    ]);
  });

  it('is of a bounded size, however large or deep the body is', () => {
    const deep: Record<string, unknown> = {};
    let at = deep;
    for (let depth = 0; depth < 30; depth++) at = at['a'] = {} as Record<string, unknown>;
    const bodies = [
      { recipients: Array.from({ length: 50_000 }, (_, n) => ({ to: `someone-${String(n)}@example.net` })) },
      Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`member${String(n)}`, 'x'.repeat(300)])),
      { subject: 's'.repeat(100_000) },
      {
        subject: Array.from({ length: 10 }, () =>
          Array.from({ length: 10 }, () => Array.from({ length: 10 }, () => 'y'.repeat(190))),
        ),
      },
      { ['n'.repeat(100_000)]: 1, to: 'a@x.test' },
      deep,
    ];
    for (const body of bodies) assert.ok(redactedBody(body).length < 8192, redactedBody(body).slice(0, 100));
    assert.match(redactedBody(bodies[0] ?? {}), /someone-9@example\.net.*49990 more/);
  });
});
