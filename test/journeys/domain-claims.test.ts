/**
 * Two accounts claim one domain: what the one has left waiting when it loses the domain is not sent in the name of the other. The
 * whole program, with the clock and DNS in the test's hands.
 */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { DomainRecord } from '../../src/domains/domain-record.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

const HOUR = 60 * 60_000;

describe('journey: a domain that two accounts claim', () => {
  let app: TestApp;
  let server: FakeMailServer;
  let other: string;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { metrics: { token: 'a-secret-of-16-letters' } },
    });
    await app.operator.call('accounts.add', { name: 'other', plan: 'unlimited' });
    ({ key: other } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'other',
      body: { name: 'o', scopes: ['domain', 'send'] },
    }));
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const call = async (method: string, path: string, key?: string, body?: object): Promise<DomainRecord> =>
    (await app.request<DomainRecord>(method, path, body, key === undefined ? {} : { key })).body;
  const add = (key?: string) => call('POST', '/v1/domains', key, { name: 'shop.test' });
  const verify = (key?: string) => call('POST', '/v1/domains/shop.test/verify', key);
  const publish = (...domains: DomainRecord[]): void => {
    const zones: Record<string, string[]> = {};
    for (const { host, type, value } of domains.flatMap(({ records }) => records)) zones[`${host} ${type}`] = [value];
    app.resolver.zones = { ...zonesFor('dest.test'), ...zones };
  };
  const heldBy = async (id: string): Promise<string | null> => {
    const [row] = await app.app.db.prepared.all<{ held_by: string | null }>(
      'SELECT held_by FROM deliveries WHERE message_id = ?',
      [id],
    );
    return row?.held_by ?? null;
  };
  const mails = () => server.sessions.flatMap((session) => session.mails);
  const metric = async (state: string): Promise<string | undefined> => {
    // Figures are read again after a moment.
    app.clock.advance(60_000);
    const headers = { authorization: 'Bearer a-secret-of-16-letters' };
    const text = await (await fetch(`${app.url}/metrics`, { headers })).text();
    return new RegExp(`^posthorn_domains\\{state="${state}"\\} (\\d+)`, 'm').exec(text)?.[1];
  };

  /** Ours was verified, lost its records for longer than the grace, and then the other account has shown that the name is its own. */
  const lose = async (): Promise<{ waiting: string; theirs: DomainRecord }> => {
    publish(await add());
    assert.equal((await verify()).status, 'verified');
    const send_at = new Date(app.clock.now() + 100 * HOUR).toISOString();
    const { id: waiting } = await app.send({ from: 'a@shop.test', to: 'bo@dest.test', send_at });
    app.resolver.zones = zonesFor('dest.test');
    for (let at = 0; at < 14; at++) {
      await verify();
      app.clock.advance(6 * HOUR);
    }
    assert.equal((await verify()).status, 'failed');
    const theirs = await add(other);
    publish(theirs);
    assert.equal((await verify(other)).status, 'verified');
    return { waiting, theirs };
  };

  it('does not send what the one left waiting, with the keys of the other', async () => {
    const { waiting } = await lose();
    app.clock.advance(20 * HOUR);
    let by: string | null = null;
    while (by === null) {
      await turn();
      by = await heldBy(waiting);
    }
    assert.match(by, /^domain:acc_\w+\/shop\.test$/);
    const why = (await app.why(waiting)).message;
    assert.match(
      why,
      /^It is held: mail from shop\.test is refused since \S+, because another account of this server has verified the name\.$/,
    );
    const theirMail = { from: 'b@shop.test', to: 'bo@dest.test', subject: 's', text: 't' };
    assert.equal((await app.request('POST', '/v1/messages', theirMail, { key: other })).status, 202, 'theirs goes');
    // Half a minute is all the time that a connection may take: theirs has to be delivered before it passes.
    await app.settled();
    app.clock.advance(31_000);
    await app.settled();
    assert.deepEqual(
      mails().map(({ from }) => from.endsWith('rp.shop.test')),
      [true],
    );
    assert.equal(await heldBy(waiting), by, 'and ours is still held');
  });

  it('says why to the one that lost it, and gives it back when it is free', async () => {
    const { waiting, theirs } = await lose();
    const refused = await app.request('POST', '/v1/messages', {
      from: 'a@shop.test',
      to: 'bo@dest.test',
      subject: 's',
      text: 't',
    });
    assert.equal(refused.status, 403);
    assert.match(
      refused.text,
      /Mail from shop\.test is refused since \S+, because another account of this server has verified the name\./,
    );
    const ours = await call('GET', '/v1/domains/shop.test');
    publish(ours, theirs);
    const checked = await verify();
    assert.deepEqual(
      [checked.status, checked.taken, checked.failing_since],
      ['failed', true, null],
      'with its records in DNS, too',
    );
    assert.equal(await metric('refused'), '0', 'nothing that the operator could repair');
    assert.equal((await app.request('DELETE', '/v1/domains/shop.test', undefined, { key: other })).status, 204);
    assert.deepEqual([(await verify()).status, (await verify()).taken], ['verified', false]);
    app.clock.advance(20 * HOUR);
    await app.follow().of(waiting, 'delivered');
    assert.ok((await app.operator.call('books', {})).balanced);
  });
});
