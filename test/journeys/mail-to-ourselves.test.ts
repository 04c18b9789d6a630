/** A domain whose mail host has another name, but an address at which this server itself listens (RFC 5321 section 5.1). */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { freePort } from '../support/harness/peer.ts';

const zones = {
  'dest.test MX': ['10 alias.dest.test', '20 spare.dest.test'],
  'alias.dest.test A': ['127.0.0.1'],
  'spare.dest.test A': ['127.0.0.1'],
};

describe('journey: mail to ourselves', () => {
  let app: TestApp;
  afterEach(() => app.stop());

  for (const host of ['127.0.0.1', '0.0.0.0'])
    it(`bounces at once as a loop, and is not offered to our own listener at ${host}`, async () => {
      const port = await freePort();
      app = await startTestApp({ mailPort: port, zones, settings: { smtp: { mx: { host, port } } } });
      const { id } = await app.send();
      const events = await app.follow().of(id, 'bounced');
      const { reason } = events.at(-1)?.data['bounced'] as { reason: string };
      assert.equal(reason, 'routing_loop');
    });
});
