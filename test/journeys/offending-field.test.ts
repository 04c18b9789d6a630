/** `field` names the member that is at fault, also if only the database knows that it is (law, section 2: error object). */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

interface Refusal {
  error: { code: string; field: string | null };
}

describe('the offending field', () => {
  let app: TestApp;
  before(async () => {
    app = await startTestApp();
    assert.equal((await app.request('POST', '/v1/suppressions', { email: 'gone@dest.test' })).status, 201);
  });
  after(() => app.stop());

  const shared = { from: 'hi@acme.test', subject: 'S', text: 'T' };
  const ana = { to: 'ana@dest.test' };
  const bo = { to: 'bo@dest.test' };
  const copies = { ...shared, ...ana, on_suppressed: 'reject' };
  const rows: [body: object, code: string, field: string, why: string][] = [
    [{ ...shared, from: 'hi@else.test', recipients: [ana, bo] }, 'domain_not_verified', 'from', 'the shared sender'],
    [
      { ...shared, on_error: 'abort', recipients: [ana, { ...bo, from: 'hi@else.test' }] },
      'domain_not_verified',
      'recipients[1].from',
      'an entry’s own sender',
    ],
    [
      { ...shared, from: 'hi@else.test', recipients: [{ ...ana, from: 'hi@acme.test' }, bo] },
      'domain_not_verified',
      'from',
      'the shared sender, used by the second entry only',
    ],
    [{ ...shared, stream: 'nope', recipients: [ana] }, 'unknown_stream', 'stream', 'the shared stream'],
    [
      { ...shared, on_error: 'abort', recipients: [{ ...ana, stream: 'nope' }] },
      'unknown_stream',
      'recipients[0].stream',
      'an entry’s own stream',
    ],
    [
      { ...shared, ...ana, from: 'hi@else.test', stream: 'nope' },
      'unknown_stream',
      'stream',
      'what is wrong in the request, before what is not allowed',
    ],
    [
      { ...shared, from: 'hi@else.test', stream: 'nope', recipients: [ana] },
      'unknown_stream',
      'stream',
      'the same of a bulk send',
    ],
    [
      { ...copies, to: 'gone@dest.test', unsubscribe: true, headers: { 'List-Unsubscribe-X': '<https://a.test/>' } },
      'header_not_allowed',
      'headers.List-Unsubscribe-X',
      'a header that is ours, before the list of suppressions',
    ],
    [{ ...copies, cc: 'gone@dest.test' }, 'recipient_suppressed', 'cc', 'the only copy'],
    [{ ...copies, bcc: ['bo@dest.test', 'Gone@dest.test'] }, 'recipient_suppressed', 'bcc[1]', 'one of several copies'],
    [
      {
        ...shared,
        on_suppressed: 'reject',
        on_error: 'abort',
        recipients: [ana, { ...bo, cc: ['cy@dest.test', 'gone@dest.test'] }],
      },
      'recipient_suppressed',
      'recipients[1].cc[1]',
      'one of several copies of an entry',
    ],
  ];
  for (const [body, code, field, why] of rows) {
    it(`is ${field}: ${why}`, async () => {
      const { error } = (await app.request<Refusal>('POST', '/v1/messages', body)).body;
      assert.deepEqual({ code: error.code, field: error.field }, { code, field });
    });
  }

  it('one bad override of a bulk send leaves out its entry alone, be it template, stream or sender', async () => {
    const overrides = [
      {},
      { from: 'hi@else.test' },
      { stream: 'nope' },
      { template_id: 'nope' },
      { template_id: 'nope', from: 'hi@else.test' },
      {},
    ];
    const recipients = overrides.map((more, n) => ({ to: `r${String(n)}@dest.test`, ...more }));
    const { status, body } = await app.request<{ accepted: number; data: { error: Refusal['error'] | null }[] }>(
      'POST',
      '/v1/messages',
      { ...shared, recipients },
    );
    assert.deepEqual([status, body.accepted], [202, 2]);
    assert.deepEqual(
      body.data.map(({ error }) => (error === null ? null : [error.code, error.field])),
      [
        null,
        ['domain_not_verified', 'recipients[1].from'],
        ['unknown_stream', 'recipients[2].stream'],
        ['unknown_template', 'recipients[3].template_id'],
        ['unknown_template', 'recipients[4].template_id'],
        null,
      ],
    );
  });

  it('a shared sender that is not verified refuses the whole bulk send, also where entries are rendered', async () => {
    const recipients = [
      { ...ana, variables: { a: 1 } },
      { ...bo, variables: { a: 2 } },
    ];
    const { error } = (
      await app.request<Refusal>('POST', '/v1/messages', {
        ...shared,
        from: 'hi@else.test',
        text: '{{ a }}',
        recipients,
      })
    ).body;
    assert.deepEqual([error.code, error.field], ['domain_not_verified', 'from']);
  });

  it('names the parameter of the path where there is nothing by that name, well-formed or not', async () => {
    const { paths } = (
      await app.get<{ paths: Record<string, Record<string, { operationId?: string }>> }>('/v1/openapi.json')
    ).body;
    const named = Object.entries(paths).filter(
      ([path, { get: read }]) => /\{\w+\}$/.test(path) && read?.operationId !== undefined,
    );
    assert.ok(named.length > 5, String(named.length));
    for (const [path] of named) {
      const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      for (const value of ['nothing-by-this-name', '%00', 'msg_01h455vb4pex5vsknk084sn02q']) {
        const { status, body } = await app.get<Refusal>(path.replaceAll(/\{\w+\}/g, value));
        assert.deepEqual([status, body.error.code], [404, 'not_found'], `${path} ${value}`);
        assert.ok(parameters.includes(body.error.field ?? ''), `${path} ${value}: ${String(body.error.field)}`);
      }
    }
  });
});
