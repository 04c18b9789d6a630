/** One id from end to end: `X-Request-Id` of the answer finds the messages, their history and the log lines about them. */
import assert from 'node:assert/strict';
import { ran } from '../cli/ran.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

describe('journey: the id of a request', () => {
  let server: FakeMailServer;
  let app: TestApp;
  before(async () => {
    server = await startMailServer({});
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });
  after(async () => {
    await app.stop();
    await server.close();
  });

  const posthorn = (...args: string[]) => ran(args, { POSTHORN_DATA_DIR: app.config.dataDir });

  it('is in the log lines of its messages, and lists them', async () => {
    await app.send({ to: 'other@dest.test' });
    const recipients = [{ to: 'ana@dest.test' }, { to: 'bo@dest.test' }];
    const sent = await app.request<{ data: { id: string }[] }>('POST', '/v1/messages', {
      from: 'hi@acme.test',
      subject: 'Two',
      text: 'x',
      recipients,
    });
    assert.equal(sent.status, 202, sent.text);
    const requestId = String(sent.headers.get('x-request-id'));
    const ids = sent.body.data.map(({ id }) => id);
    for (const id of ids) await app.follow().of(id, 'delivered');
    assert.deepEqual(
      app.logged
        .filter(({ event, message_id: id }) => event === 'attempt' && ids.includes(String(id)))
        .map(({ request_id: id }) => id),
      [requestId, requestId],
    );
    const listed = JSON.parse((await posthorn('messages', 'list', '--request', requestId, '--json')).out) as {
      data: { id: string }[];
    };
    assert.deepEqual(listed.data.map(({ id }) => id).toSorted(), ids.toSorted());
  });
});
