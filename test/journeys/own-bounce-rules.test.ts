/** The operator's own bounce rules, held against real bounce mails: those of the start, and those of a reload. */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { configFor, newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { dsn, sendByHand } from '../support/harness/mail-back.ts';

const ruleFor = (text: string): string =>
  `rules: [{ name: house, class: soft, reason: other, text: ['${text}'], phases: [report] }]`;

describe('journey: own bounce rules', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let folder: string;
  let file: string;
  let settings: Record<string, unknown>;

  beforeEach(async () => {
    server = await startMailServer();
    folder = newFolder();
    file = path.join(folder, 'rules.yaml');
    settings = { delivery: { bounceRules: [file] } };
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
    rmSync(folder, { recursive: true });
  });

  const start = async (rules: string): Promise<void> => {
    writeFileSync(file, rules);
    app = await startTestApp({ folder, mailPort: server.port, zones: zonesFor('dest.test'), settings });
  };
  const reload = (rules: string): void => {
    writeFileSync(file, rules);
    app.app.reload(configFor(folder, server.port, settings));
  };
  /** Has a mail delivered, then returned with this text; returns what the event says. */
  const returned = async (to: string, text: string): Promise<unknown[]> => {
    const { id } = await app.send({ to });
    await app.follow().of(id, 'delivered');
    const mail = server.sessions.flatMap(({ mails }) => mails).at(-1);
    await sendByHand(app.app.ports.mx ?? 0, '', mail?.from ?? '', dsn(to, { text }));
    const events = await app.follow().of(id, 'bounced');
    const detail = events.at(-1)?.data['bounced'] as Record<string, unknown>;
    return [detail['class'], detail['reason'], detail['suppression_added']];
  };
  const isSuppressed = async (address: string): Promise<boolean> =>
    (await app.get(`/v1/suppressions/${encodeURIComponent(address)}`)).status === 200;

  it('keep an address off the suppression list that a bounce mail would put there', async () => {
    await start(ruleFor('closed for repair'));
    assert.deepEqual(await returned('ana@dest.test', '550 5.1.1 closed for repair'), ['soft', 'other', false]);
    assert.equal(await isSuppressed('ana@dest.test'), false);
    assert.deepEqual(await returned('bob@dest.test', '550 5.1.1 no such user'), ['hard', 'mailbox_not_found', true]);
    assert.equal(await isSuppressed('bob@dest.test'), true);
  });

  it('are those of the last reload, also for a thread that has read mail before', async () => {
    await start('rules: []');
    assert.deepEqual(await returned('ana@dest.test', '550 5.1.1 closed for repair'), [
      'hard',
      'mailbox_not_found',
      true,
    ]);
    reload(ruleFor('closed for repair'));
    assert.deepEqual(await returned('bob@dest.test', '550 5.1.1 closed for repair'), ['soft', 'other', false]);
    assert.equal(await isSuppressed('bob@dest.test'), false);
    reload(ruleFor('open again'));
    assert.deepEqual(await returned('cleo@dest.test', '550 5.1.1 open again'), ['soft', 'other', false]);
    assert.equal((await returned('dan@dest.test', '550 5.1.1 closed for repair'))[0], 'hard');
  });
});
