/** The Model Context Protocol: what an assistant may ask with a key, and how it is told what it may not. */
import assert from 'node:assert/strict';
import { scopeNames } from '../../src/keys/scopes.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

interface Told {
  result?: {
    protocolVersion?: string;
    tools?: { name: string; inputSchema: { type: string; properties: object; required?: string[] } }[];
    content?: { type: string; text: string }[];
    structuredContent?: Record<string, unknown>;
    isError?: boolean;
  };
  error?: { code: number | string; message: string; field?: string };
}

describe('journey: an assistant by the Model Context Protocol', () => {
  let app: TestApp;
  before(async () => {
    app = await startTestApp({ zones: zonesFor('dest.test') });
  });
  after(() => app.stop());

  const keyWith = async (body: object): Promise<string> =>
    (await app.operator.ask<{ key: string }>('createKey', { body: { name: 'assistant', ...body } })).key;

  /** Sends what a client sends, byte for byte. */
  async function post(body: object | string, { key = app.key, method = 'POST', headers = {} } = {}) {
    const response = await fetch(`${app.url}/mcp`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        ...headers,
      },
      ...(method === 'POST' ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    return { status: response.status, told: (text === '' ? {} : JSON.parse(text)) as Told, text };
  }

  const rpc = async (method: string, params: object = {}, key = app.key): Promise<Told> => {
    const { status, told } = await post({ jsonrpc: '2.0', id: 7, method, params }, { key });
    assert.equal(status, 200);
    return told;
  };
  const call = async (name: string, input: object = {}, key = app.key) => {
    const { result } = await rpc('tools/call', { name, arguments: input }, key);
    assert.ok(result?.structuredContent !== undefined);
    assert.deepEqual(JSON.parse(result.content?.[0]?.text ?? ''), result.structuredContent);
    return { told: result.structuredContent, isError: result.isError === true };
  };
  const toolsOf = async (key: string) => (await rpc('tools/list', {}, key)).result?.tools ?? [];

  it('begins in a version that both speak, and takes notifications', async () => {
    const begun = async (protocolVersion: string) =>
      (await rpc('initialize', { protocolVersion })).result?.protocolVersion;
    assert.equal(await begun('2025-06-18'), '2025-06-18');
    assert.equal(await begun('1999-01-01'), '2025-11-25');
    assert.deepEqual((await rpc('ping')).result, {});
    const notified = await post({ jsonrpc: '2.0', method: 'notifications/initialized' });
    assert.deepEqual([notified.status, notified.text], [202, '']);
  });

  it('has the tools that the key opens, each with the schema of its operation', async () => {
    const all = await toolsOf(await keyWith({ scopes: scopeNames }));
    for (const { inputSchema } of all) assert.equal(inputSchema.type, 'object');
    const send = all.find(({ name }) => name === 'sendMessage')?.inputSchema;
    assert.ok(send !== undefined && 'text' in send.properties);
    assert.deepEqual(all.find(({ name }) => name === 'explainDelivery')?.inputSchema.required, ['id']);
    assert.deepEqual(
      (await toolsOf(await keyWith({ scopes: ['suppression:read'] }))).map(({ name }) => name),
      ['listSuppressions', 'getSuppression'],
    );
    const ofTest = (await toolsOf(await keyWith({ scopes: scopeNames, mode: 'test' }))).map(({ name }) => name);
    assert.ok(ofTest.includes('sendMessage') && !ofTest.includes('createSuppression'));
  });

  it('sends, says why a mail waits, and shows what waits, with a row in the audit', async () => {
    const { told } = await call('sendMessage', {
      ...{ from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Order 17', text: 'x' },
      send_at: new Date(app.clock.now() + 3_600_000).toISOString(),
    });
    const id = String(told['id']);
    const { message, why } = (await call('explainDelivery', { id })).told as Record<string, Record<string, unknown>>;
    assert.equal(message?.['status'], 'scheduled');
    assert.match(JSON.stringify(why?.['recipients']), /scheduled/);
    for (const [name, input] of [
      ['listWaitingMessages', { limit: 1 }],
      ['listMessages', { to: 'ana@dest.test', status: ['scheduled', 'queued'] }],
    ] as const) {
      const { data } = (await call(name, input)).told as { data: { id: string }[] };
      assert.deepEqual(
        data.map((one) => one.id),
        [id],
        name,
      );
    }
    const rows = await app.operator.ask<{ data: { operation: string; key_id: string; object_id: string }[] }>(
      'listAuditEntries',
      { query: { operation: 'sendMessage' } },
    );
    assert.deepEqual(
      rows.data.map((one) => [one.object_id, one.key_id]),
      [[id, app.keyId]],
    );
    assert.equal((await call('cancelMessage', { id })).told['status'], 'canceled');
  });

  it('suppresses an address and lifts that again', async () => {
    const email = 'no+news@dest.test';
    await call('createSuppression', { email });
    assert.equal((await call('getSuppression', { email })).told['email'], email);
    await call('deleteSuppression', { email });
    const { code, status } = (await call('getSuppression', { email })).told['error'] as Record<string, unknown>;
    assert.deepEqual([code, status], ['not_found', 404]);
  });

  it('tells the assistant what is wrong with its input, or not open to its key', async () => {
    const codeOf = async (name: string, input: object, key?: string): Promise<unknown> => {
      const { told, isError } = await call(name, input, key);
      assert.ok(isError);
      const { code, field } = told['error'] as { code: string; field: string | null };
      return [code, field];
    };
    assert.deepEqual(await codeOf('listMessages', { colour: 'red' }), ['invalid_parameter', 'colour']);
    assert.deepEqual(await codeOf('sendMessage', { to: 'x', subject: 'x', text: 'x' }), ['missing_field', 'from']);
    assert.deepEqual(await codeOf('explainDelivery', { id: 'msg_none' }), ['not_found', 'id']);
    const reader = await keyWith({ scopes: ['message:read'] });
    assert.deepEqual(await codeOf('createSuppression', { email: 'a@dest.test' }, reader), ['insufficient_scope', null]);
    const tester = await keyWith({ scopes: scopeNames, mode: 'test' });
    assert.deepEqual(await codeOf('createSuppression', { email: 'a@dest.test' }, tester), [
      'forbidden_in_test_mode',
      null,
    ]);
  });

  it('sees simulated mail alone with a test key', async () => {
    const live = await app.send();
    const tester = await keyWith({ scopes: scopeNames, mode: 'test' });
    const { told } = await call('listMessages', {}, tester);
    assert.deepEqual(told['data'], []);
    assert.ok((await call('explainDelivery', { id: live.id }, tester)).isError);
  });

  for (const [reason, body, options, status, code] of [
    ['another method', {}, { method: 'GET' }, 405, 'method_not_allowed'],
    ['the end of a session', {}, { method: 'DELETE' }, 405, 'method_not_allowed'],
    ['a batch', [{ jsonrpc: '2.0', id: 1, method: 'ping' }], {}, 400, 'invalid_json'],
    ['a key that is none', { jsonrpc: '2.0', id: 1, method: 'ping' }, { key: 'ak_live_none' }, 401, 'invalid_api_key'],
    ['a page of another site', {}, { headers: { origin: 'https://evil.test' } }, 403, 'insufficient_scope'],
    ['another version', {}, { headers: { 'mcp-protocol-version': '2024-11-05' } }, 400, 'invalid_parameter'],
    ['too much', { jsonrpc: '2.0', id: 1, method: 'x'.repeat(300_000) }, {}, 413, 'payload_too_large'],
  ] as const)
    it(`refuses ${reason} with ${String(status)}`, async () => {
      const { status: got, told } = await post(body, options);
      assert.deepEqual([got, told.error?.code], [status, code]);
    });

  for (const [reason, body, code] of [
    ['an unknown method', { jsonrpc: '2.0', id: 1, method: 'resources/list' }, -32601],
    ['an unknown tool', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'dropTables' } }, -32602],
    ['another JSON', { id: 1, method: 'ping' }, -32600],
  ] as const)
    it(`answers ${reason} with ${String(code)}`, async () => {
      const { status, told } = await post(body);
      assert.deepEqual([status, told.error?.code], [200, code]);
    });
});
