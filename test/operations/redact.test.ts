import assert from 'node:assert/strict';
import { redactedBody } from '../../src/operations/redact.ts';

const kept = (body: object): unknown => JSON.parse(redactedBody(body));

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
    ['lone surrogates', { subject: 'a\ud800' }, { subject: 'a\ufffd' }],
  ];
  for (const [why, body, expected] of rows)
    it(why, () => {
      assert.deepEqual(kept(body), expected);
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
