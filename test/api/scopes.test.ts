/**
 * Who may do what, over the whole program: every operation of the published document with every scope, and every operation
 * on an object with the key of another account. Nothing here names an operation, so new ones are covered as they come.
 */
import assert from 'node:assert/strict';
import { scopeAllows, scopeNames, type Scope } from '../../src/keys/scopes.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { sendByHand } from '../support/harness/mail-back.ts';

interface Operation {
  method: string;
  path: string;
  scopes: readonly Scope[];
  /** The document says that it refuses test keys. */
  isLiveOnly: boolean;
  /** Bodies that the document shows. */
  examples: readonly unknown[];
}

interface Document {
  paths: Record<string, Record<string, Described>>;
}

interface Described {
  'x-required-scopes'?: Scope[];
  'x-test-keys'?: string;
  requestBody?: { content: Record<string, { examples?: Record<string, { value: unknown }> }> };
}

interface Refusal {
  error: { code: string };
}

const NOBODY = '01jz5w8q3hf2m9d4x6k7c1b0na';
/** An object of each kind is found in its list or made there; these have none, and are things that others may have as well. */
const WITHOUT_LIST = ['/v1/recipients'];

/** `event:engagement` opens members of records, not a route; the others wait for their routes. */
const WITHOUT_ROUTE: readonly string[] = ['event:engagement'];

describe('api/scopes', () => {
  let app: TestApp;
  let operations: Operation[];

  before(async () => {
    app = await startTestApp();
    operations = await readOperations(app);
  });
  after(() => app.stop());

  const makeKey = async (scopes: readonly string[], more: { account?: string; mode?: 'live' | 'test' } = {}) =>
    (
      await app.operator.ask<{ id: string; key: string }>('createKey', {
        account: more.account,
        body: { name: 'walker', scopes: [...scopes], mode: more.mode },
      })
    ).key;

  it('opens each operation with its own scopes and no other', async () => {
    const opened = new Set<Scope>();
    for (const scope of scopeNames) {
      const key = await makeKey([scope]);
      for (const operation of operations) {
        const may = operation.scopes.some((needed) => scopeAllows([scope], needed));
        const { status, body } = await call(app, operation, filled(operation.path), {}, key);
        const isRefused = status === 403 && (body as unknown as Refusal).error.code === 'insufficient_scope';
        // An operation with several scopes may need the one that the body calls for.
        if (operation.scopes.length === 1 || !may)
          assert.equal(isRefused, !may, `${operation.method} ${operation.path} with ${scope}: ${String(status)}`);
        if (may && !isRefused) opened.add(scope);
      }
    }
    const needed = scopeNames.filter((scope) =>
      operations.some(({ scopes }) => scopes.some((one) => scopeAllows([scope], one))),
    );
    assert.deepEqual(
      scopeNames.filter((scope) => needed.includes(scope) && !opened.has(scope)),
      [],
      'opened nothing',
    );
    const idle = scopeNames.filter((scope) => !needed.includes(scope) && !WITHOUT_ROUTE.includes(scope));
    assert.deepEqual(idle, [], 'scopes that no operation asks for');
  });

  it('refuses a test key with every scope in the operations that the document says', async () => {
    const key = await makeKey(scopeNames, { mode: 'test' });
    for (const operation of operations) {
      const { body } = await call(app, operation, filled(operation.path), operation.examples[0] ?? {}, key);
      const isRefused = (body as unknown as Partial<Refusal>).error?.code === 'forbidden_in_test_mode';
      assert.equal(isRefused, operation.isLiveOnly, `${operation.method} ${operation.path}`);
    }
    assert.ok(operations.some(({ isLiveOnly }) => isLiveOnly));
  });

  it('lets the bulk form in with campaign and the single form with send', async () => {
    const both = { from: 'a@acme.test', subject: 's', text: 't' };
    for (const [scope, body, isOpen] of [
      ['send', { ...both, to: 'b@dest.test' }, true],
      ['send', { ...both, recipients: [{ to: 'b@dest.test' }] }, false],
      ['campaign', { ...both, to: 'b@dest.test' }, false],
      ['campaign', { ...both, recipients: [{ to: 'b@dest.test' }] }, true],
    ] as const) {
      const { status } = await app.request('POST', '/v1/messages', body, { key: await makeKey([scope]) });
      assert.equal(status, isOpen ? 202 : 403, scope);
    }
  });

  it('shows and changes nothing of another account', async () => {
    await app.operator.call('accounts.add', { name: 'other', plan: 'unlimited' });
    // The domain that the examples of the document are sent from.
    await app.operator.ask('createDomain', { body: { name: 'acme.example', trusted: true } });
    // Mail from outside is the only way to a received mail.
    await app.operator.ask('updateDomain', { params: { id: 'acme.example' }, body: { receiving: true } });
    await sendByHand(app.app.ports.mx ?? 0, 'ana@dest.test', 'hi@acme.example', 'Subject: Hi\r\n\r\nHi');
    await app.follow().until((seen) => seen.some(({ type }) => type === 'received'));
    const owner = await makeKey(scopeNames);
    const stranger = await makeKey(scopeNames, { account: 'other' });
    const onObjects = operations.filter(({ path }) => path.includes('{'));
    const collections = new Set(onObjects.map(({ path }) => path.slice(0, path.indexOf('/{'))));
    for (const collection of collections) {
      if (WITHOUT_LIST.includes(collection)) continue;
      const name = await objectOf(app, collection, operations, owner);
      assert.ok(name !== null, `no object could be had from ${collection}: give its POST an example that can be sent`);
      const own = onObjects.filter(({ path }) => path.startsWith(`${collection}/{`));
      const read = own.find(({ method, path }) => method === 'GET' && path.endsWith('}'));
      const before = read === undefined ? null : await call(app, read, filled(read.path, name), undefined, owner);
      for (const operation of own) {
        const body = operation.examples[0] ?? {};
        const { status, body: answer } = await call(app, operation, filled(operation.path, name), body, stranger);
        assert.equal(
          status,
          404,
          `${operation.method} ${operation.path} of another account: ${JSON.stringify(answer)}`,
        );
        assert.equal((answer as unknown as Refusal).error.code, 'not_found');
      }
      if (read === undefined || before === null) continue;
      assert.equal(before.status, 200, `${read.path}: ${before.text}`);
      const after = await call(app, read, filled(read.path, name), undefined, owner);
      assert.deepEqual(after.body, before.body, `${read.path} was changed from another account`);
    }
  });
});

async function readOperations(app: TestApp): Promise<Operation[]> {
  const { body } = await app.get<Document>('/v1/openapi.json', { key: null });
  return Object.entries(body.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, described]) => {
      const { 'x-required-scopes': scopes = [], 'x-test-keys': testKeys, requestBody } = described;
      if (scopes.length === 0) return [];
      const examples = Object.values(requestBody?.content['application/json']?.examples ?? {}).map(
        ({ value }) => value,
      );
      return [{ method: method.toUpperCase(), path, scopes, isLiveOnly: testKeys === 'refused', examples }];
    }),
  );
}

/** The path with a name in it: that of nothing there is, where none is given. */
function filled(path: string, name?: string): string {
  const prefixes: Record<string, string> = {
    messages: 'msg',
    batches: 'bat',
    templates: 'tpl',
    domains: 'dom',
    keys: 'key',
    streams: 'str',
    webhooks: 'whk',
  };
  const prefix = prefixes[path.split('/')[2] ?? ''];
  const nobody = prefix === undefined ? 'nobody@dest.test' : `${prefix}_${NOBODY}`;
  return path.replaceAll(/\{[^}]+\}/g, encodeURIComponent(name ?? nobody));
}

function call(app: TestApp, { method }: Operation, path: string, body: unknown, key: string) {
  return app.request(method, path, method === 'GET' || method === 'DELETE' ? undefined : body, { key });
}

/** The name of an object in this collection, made from the document's own examples where there is none yet. */
async function objectOf(
  app: TestApp,
  collection: string,
  operations: readonly Operation[],
  key: string,
): Promise<string | null> {
  const listed = await firstOf(app, collection, key);
  if (listed !== null) return listed;
  // Batches are made by the bulk form of messages.
  for (const { path, method, examples } of operations) {
    if (method !== 'POST' || (path !== collection && !(collection === '/v1/batches' && path === '/v1/messages')))
      continue;
    for (const example of examples) {
      const { headers, body } = await app.request<{ id?: string }>('POST', path, example, { key });
      const location = headers.get('location');
      if (location?.startsWith(`${collection}/`) === true)
        return decodeURIComponent(location.slice(collection.length + 1));
      if (collection === '/v1/batches' && body.id?.startsWith('bat_') === true) return body.id;
    }
  }
  return firstOf(app, collection, key);
}

async function firstOf(app: TestApp, collection: string, key: string): Promise<string | null> {
  const { status, body } = await app.get<{ data?: { id: string; email?: string }[] }>(`${collection}?limit=1`, { key });
  const first = status === 200 ? body.data?.[0] : undefined;
  return first === undefined ? null : (first.email ?? first.id);
}
