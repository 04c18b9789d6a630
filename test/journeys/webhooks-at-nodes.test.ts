/** Two nodes on one PostgreSQL call webhooks: each endpoint is called by one of them, and is worked with at both. */
import assert from 'node:assert/strict';
import { Owners } from '../../src/storage/owners.ts';
import { hasWorkingOthers, startTestApp, type TestApp } from '../support/harness/app.ts';
import { startReceiver, type ReceivedCall, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';
import { sendByHand } from '../support/harness/mail-back.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

const ENDPOINTS = 12;
const HANDED_OVER_MS = 3000;

describe('journey: webhooks of two nodes', () => {
  let receiver: WebhookReceiver;
  let one: TestApp;
  let two: TestApp;
  let running: TestApp[];

  before(function () {
    if (!isOnPostgres) this.skip('only PostgreSQL has several nodes');
  });
  beforeEach(async () => {
    receiver = await startReceiver();
    const settings = { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } };
    one = await startTestApp({ settings: { ...settings, node: { name: 'one' } } });
    running = [one];
    const { clock, resolver } = one;
    two = await startTestApp({ settings: { ...settings, node: { name: 'two' } }, clock, resolver, beside: one });
    running.push(two);
    await until(() => hasWorkingOthers(one));
    one.clock.advance(HANDED_OVER_MS);
  });
  afterEach(async () => {
    await receiver.close();
    for (const app of running.splice(0).reverse()) await app.stop();
  });

  async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Registers the endpoints at both nodes in turn; each has a path of its own. */
  async function register(event = 'delivered'): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < ENDPOINTS; n++) {
      const url = `${receiver.url}/${String(n)}`;
      const { status, body, text } = await (n % 2 === 0 ? one : two).request<{ id: string }>('POST', '/v1/webhooks', {
        url,
        events: [event],
      });
      assert.equal(status, 201, text);
      ids.push(body.id);
    }
    return ids;
  }

  /** Sends simulated mail, at these nodes in turn. */
  async function send(mails: number, at = [one, two]): Promise<void> {
    for (let n = 0; n < mails; n++)
      await at[n % at.length]?.send(
        { from: 'hi@simulator.posthorn.test', to: 'delivered@simulator.posthorn.test' },
        { key: one.key },
      );
  }

  /** The node that does not call the endpoint. */
  function otherThanOwnerOf(id: string): TestApp {
    const { nodes } = one.app.db;
    assert.ok(nodes);
    return new Owners(nodes).isOurs(id) ? two : one;
  }

  const pairOf = ({ path, event }: ReceivedCall): string => `${path} ${event.id}`;
  const received = (): number => new Set(receiver.calls.map(pairOf)).size;

  it('call each endpoint once for each event, from both, and from one when the other stops', async () => {
    const ids = await register();
    assert.equal(new Set(ids.map(otherThanOwnerOf)).size, 2, 'both have some');
    await send(4);
    await until(() => received() === 4 * ENDPOINTS);
    await one.app.stop();
    await until(() => two.app.db.nodes?.hasOthers === false);
    // Time passes before the next mail: a call that is on the wire for 15 s of it would have failed, and be made again.
    two.clock.advance(HANDED_OVER_MS);
    await send(4, [two]);
    await until(() => received() === 8 * ENDPOINTS);
    assert.equal(receiver.calls.length, 8 * ENDPOINTS, 'none twice');
  });

  it('tell each endpoint once of a mail that came to either', async () => {
    await one.operator.ask('updateDomain', { params: { id: 'acme.test' }, body: { receiving: true } });
    await register('received');
    for (const { app } of [one, two, two, one])
      await sendByHand(app.ports.mx ?? 0, 'ana@dest.test', 'support@acme.test', 'Subject: x\r\n\r\nHello');
    await until(() => received() === 4 * ENDPOINTS);
    for (const app of running) await app.settled();
    assert.equal(receiver.calls.length, 4 * ENDPOINTS, 'none twice');
    assert.equal(new Set(receiver.calls.map(({ event }) => event.id)).size, 4);
  });

  it('are paused, resumed, tested and asked for again at the node that does not call them', async () => {
    const ids = await register();
    for (const id of ids) await otherThanOwnerOf(id).request('PATCH', `/v1/webhooks/${id}`, { enabled: false });
    // The message to the other node is on its way for some milliseconds.
    await until(async () => {
      receiver.calls.splice(0);
      await send(1);
      await two.settled();
      return receiver.calls.length === 0;
    });
    const kept = (await one.get<{ data: unknown[] }>('/v1/events?type=delivered&limit=100')).body.data.length;
    for (const id of ids) {
      const node = otherThanOwnerOf(id);
      const { body } = await node.request<{ status: string }>('POST', `/v1/webhooks/${id}/test`, { type: 'delivered' });
      assert.equal(body.status, 'delivered');
      await node.request('PATCH', `/v1/webhooks/${id}`, { enabled: true });
    }
    const path = (id: string): string => `/v1/webhooks/${id}/deliveries?limit=100`;
    const logged = async (id: string): Promise<number> =>
      (await one.get<{ data: unknown[] }>(path(id))).body.data.length;
    // All are told what they have missed first: a call that is asked for again while it is on the wire waits for time to pass.
    for (const id of ids) await until(async () => (await logged(id)) > kept);
    receiver.calls.splice(0);
    // A replay ends before the moment in which it is asked for.
    one.clock.advance(1000);
    for (const id of ids) {
      const { status, text } = await otherThanOwnerOf(id).request('POST', `/v1/webhooks/${id}/replay`, {
        since: new Date(one.clock.now() - 3_600_000).toISOString(),
        only: 'all',
      });
      assert.equal(status, 202, text);
    }
    await until(() => received() === kept * ENDPOINTS);
    for (const id of ids) await until(async () => (await logged(id)) > 2 * kept);
  });
});
