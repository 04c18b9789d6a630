/** The audit says who did what to which object, and only to those who may see it. */
import assert from 'node:assert/strict';
import { perform } from '../../src/operator/operations.ts';
import { ran } from '../cli/ran.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { signedIn } from '../support/harness/browser.ts';

interface Entry {
  actor: string;
  operation: string | null;
  object_type: string | null;
  object_id: string | null;
  before: object | null;
  after: object | null;
  summary: string | null;
}

describe('journey: audit', () => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startTestApp({});
  });
  afterEach(() => app.stop());

  const entryOf = async (operation: string): Promise<Entry | undefined> =>
    (await app.get<{ data: Entry[] }>(`/v1/audit?operation=${operation}`)).body.data[0];

  it('tells the object and what changed, whichever the door', async () => {
    const { id } = await app.operator.ask<{ id: string }>('createKey', { body: { name: 'shop', scopes: ['send'] } });
    const made = await entryOf('createKey');
    assert.deepEqual(
      [made?.actor, made?.object_id, made?.before, made?.summary],
      ['operator', id, null, 'created the API key shop'],
    );
    assert.doesNotMatch(JSON.stringify(made), /ak_live_/);
    await app.request('PATCH', `/v1/keys/${id}`, { scopes: ['send', 'event:read'] });
    const changed = await entryOf('updateKey');
    assert.deepEqual([changed?.before, changed?.after], [{ scopes: ['send'] }, { scopes: ['send', 'event:read'] }]);
    const browser = await signedIn(app.url, app.operator);
    await browser.open('/suppressions');
    await browser.submit('/suppressions', { email: 'ana@example.net' });
    const listed = await entryOf('createSuppression');
    assert.deepEqual(
      [listed?.actor, listed?.object_type, listed?.object_id, listed?.summary],
      ['member:ana@example.net', 'suppression', 'ana@example.net', 'put ana@example.net on the suppression list'],
    );
  });

  it('shows acts that concern no account on the command line and to administrators, and to no key', async () => {
    await app.operator.call('queue.hold', { domain: 'dest.test' });
    const { out } = await ran(['audit', '--server', '--json'], { POSTHORN_DATA_DIR: app.config.dataDir });
    const { data } = JSON.parse(out) as { data: Entry[] };
    assert.deepEqual(
      data.slice(0, 2).map(({ actor, summary }) => `${actor} ${(summary ?? '').replace(/\d+\.\d+\.\d+/, 'x')}`),
      ['operator held the domain dest.test', 'server started the server, version x'],
    );
    const seen = await app.get<{ data: Entry[] }>('/v1/audit?by=person&limit=100');
    assert.ok(seen.body.data.every(({ operation }) => operation !== 'queue.hold' && operation !== 'server.start'));
    const browser = await signedIn(app.url, app.operator);
    assert.match((await browser.open('/developer/actions?of=server')).html, /held the domain dest\.test/);
  });

  it('refuses a member who is no administrator every operation that is not for members', async () => {
    const acting = { actor: 'member:bo@example.net', ip: null, method: 'DASHBOARD', user_agent: null };
    const by = { acting, onlyAccount: 'acc_x' };
    await assert.rejects(perform({} as never, 'queue.flush', { all: true }, by), /Only administrators/);
  });
});
