import assert from 'node:assert/strict';
import { createEndpoint } from '../../src/webhooks/endpoint-store.ts';
import type { Control } from '../../src/operator/door/control.ts';
import { Office } from '../operator/office.ts';
import { ran, type Ran } from './ran.ts';

describe('posthorn webhooks', () => {
  let office: Office;
  let control: Control;
  let id: string;
  before(async () => {
    office = await Office.open();
    control = await office.serve();
    const [account] = (await office.run('accounts.list', {})).data;
    const endpoint = {
      url: 'https://hooks.acme.test/',
      events: ['sent', 'bounced'],
      accountId: account?.id ?? '',
      createdBy: 'test',
    };
    const made = await createEndpoint({ ...office.deps, changed: () => undefined }, endpoint, () => ({}));
    id = made.row.id;
  });
  after(async () => {
    await control.close();
    await office.close();
  });
  const posthorn = (...args: string[]): Promise<Ran> =>
    ran(['webhooks', ...args], { POSTHORN_DATA_DIR: office.folder });

  it('list shows the endpoints of an account', async () => {
    assert.match(
      (await posthorn('list')).out,
      new RegExp(`^ID +STATUS[^]*\n${id} +active .* https://hooks\\.acme\\.test/ +sent,bounced`),
    );
    const { out } = await posthorn('list', '--json');
    const { data } = JSON.parse(out) as { data: { id: string; object: string }[] };
    assert.deepEqual(
      data.map((one) => [one.object, one.id]),
      [['webhook', id]],
    );
    await office.run('accounts.add', { name: 'Acme' });
    assert.deepEqual(JSON.parse((await posthorn('list', '--account', 'Acme', '--json')).out), { data: [] });
    assert.equal((await posthorn('list', '--account', 'nobody')).code, 66);
  });

  it('pause and enable tell the engine, with a line in the audit log each', async () => {
    assert.match((await posthorn('pause', id)).out, new RegExp(`${id} +paused`));
    assert.equal((JSON.parse((await posthorn('enable', id, '--json')).out) as { status: string }).status, 'active');
    assert.deepEqual(
      office.forgotten.filter((one) => one === id),
      [id, id],
    );
    const lines = (await office.audit()).filter(({ operation }) => operation === 'updateWebhook');
    assert.deepEqual(
      lines.map(({ actor, method, object_id, before_json, after_json }) => [
        actor,
        method,
        object_id,
        before_json,
        after_json,
      ]),
      [
        ['operator', 'CLI', id, '{"status":"active"}', '{"status":"paused"}'],
        ['operator', 'CLI', id, '{"status":"paused"}', '{"status":"active"}'],
      ],
    );
    assert.ok(lines.every(({ account_id }) => account_id !== null));
  });

  it('say that there is no such endpoint', async () => {
    const { code, notes } = await posthorn('pause', 'whk_nothing');
    assert.equal(code, 66);
    assert.match(notes, /no such webhook endpoint\. \(not_found\)/);
  });
});
