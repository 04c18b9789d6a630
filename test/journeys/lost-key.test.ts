/** The key file is another one than the database was sealed with: found out at the start, and the way on where it is lost for good. */
import type { Domain } from '../../src/client/types.ts';
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { KeyFileError, openKeyring } from '../../src/base/keyring.ts';
import { newFolder, startTestApp, zonesFor } from '../support/harness/app.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

const fresh = (id: string): string => `${id} ${randomBytes(32).toString('base64url')}\n`;

describe('journey: another key file', () => {
  let server: FakeMailServer;
  let folder: string;
  let oldFile: string;
  let oldId: string;
  let webhook: string;
  const write = (text: string): void => {
    writeFileSync(path.join(folder, 'secret.key'), text, { mode: 0o600 });
  };
  const start = (): ReturnType<typeof startTestApp> =>
    startTestApp({
      folder,
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } },
    });

  before(async () => {
    server = await startMailServer();
    folder = newFolder();
    const test = await start();
    const made = await test.request<{ id: string }>('POST', '/v1/webhooks', {
      url: 'http://127.0.0.1:2009/hook',
      headers: { 'X-Token': 'one' },
    });
    assert.equal(made.status, 201, made.text);
    webhook = made.body.id;
    await test.stop();
    oldFile = readFileSync(path.join(folder, 'secret.key'), 'utf8');
    oldId = openKeyring(folder).currentId;
  });
  after(async () => {
    await server.close();
    rmSync(folder, { recursive: true });
  });

  for (const [what, text, says] of [
    [
      'another key',
      () => fresh('second'),
      /does not have the key (\w+), under which \d+ DKIM keys, 1 webhook endpoints, 1 sets of webhook headers in the database are sealed: put the old file back .*"lost \1"/,
    ],
    ['the same id with other bytes', () => fresh(oldId), /the key \w+ in .*secret\.key is not the one under which/],
    ['a loss that is not ours', () => `${fresh('second')}lost other\n`, /does not have the key/],
  ] as const) {
    it(`does not start with ${what}, and says what to do`, async () => {
      write(text());
      await assert.rejects(start(), (error) => error instanceof KeyFileError && says.test(error.message));
    });
  }

  it('starts again once the old file is back, also with a newer key beside it', async () => {
    write(`${oldFile}${fresh('second')}`);
    const test = await start();
    assert.equal(
      test.logged.find(({ event }) => event === 'secrets_lost'),
      undefined,
    );
    const { id } = await test.send();
    await test.settled();
    assert.equal((await test.message(id)).status, 'delivered');
    await test.stop();
  });

  it('starts where the file says that the key is lost: mail waits, until there are new DKIM keys', async () => {
    // Nothing is sealed under the second one, but on PostgreSQL other nodes may use it.
    write(`${fresh('third')}lost ${oldId}\nlost second\n`);
    const test = await start();
    const warned = test.logged.find(({ event }) => event === 'secrets_lost');
    assert.equal(warned?.level, 'warn');
    assert.equal(warned['key_id'], oldId);
    assert.match(String(warned['secrets']), /1 webhook endpoints, 1 sets of webhook headers/);
    const { id } = await test.send();
    await test.settled();
    assert.notEqual((await test.message(id)).status, 'delivered', 'nothing goes unsigned');
    await test.operator.ask<Domain>('rotateDomainDkim', { params: { id: 'acme.test' }, body: { at_once: true } });
    assert.equal((await test.nextAttempt(id)).status, 'delivered');
    assert.match(server.sessions.flatMap(({ mails }) => mails).at(-1)?.data ?? '', /^DKIM-Signature: /m);
    const rotated = await test.request('POST', `/v1/webhooks/${webhook}/secret/rotate`);
    assert.equal(rotated.status, 200, rotated.text);
    // Its headers still cannot be opened, and its owner alone knows them.
    const left = async () => (await test.operator.call('needs', {})).data;
    const need = (await left()).find(({ kind }) => kind === 'secret_key');
    assert.match(need?.message ?? '', /^Secrets: 1 sets of webhook headers are sealed under the lost key/);
    const given = await test.request('PATCH', `/v1/webhooks/${webhook}`, { headers: { 'X-Token': 'one' } });
    assert.equal(given.status, 200, given.text);
    assert.ok(!(await left()).some(({ kind }) => kind === 'secret_key'));
    await test.stop();
  });
});
