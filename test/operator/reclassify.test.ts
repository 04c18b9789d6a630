/** What a correction does to attempts and suppressions, over the whole app. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { rmSync } from 'node:fs';

const HOUR = 3_600_000;

describe('operator: reclassify', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let folder: string;
  let file: string;

  beforeEach(async () => {
    server = await startMailServer();
    folder = newFolder();
    file = path.join(folder, 'rules.yaml');
    writeFileSync(file, 'rules: []');
    app = await startTestApp({
      folder,
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { delivery: { bounceRules: [file] } },
    });
  });

  afterEach(async () => {
    await app.stop();
    await server.close();
    rmSync(folder, { recursive: true });
  });

  const bounce = async (to: string, reply: string): Promise<string> => {
    server.options.script = { rcpt: reply };
    const { id } = await app.send({ to });
    await app.settled();
    return id;
  };
  const suppressed = async (): Promise<string[]> =>
    (await app.app.db.prepared.all<{ email: string }>('SELECT email FROM suppressions ORDER BY email')).map(
      ({ email }) => email,
    );
  const labelOf = async (id: string): Promise<string> => {
    const [attempt] = (await app.message(id)).attempts;
    return `${String(attempt?.class)} ${String(attempt?.reason)}`;
  };
  const HOUSE = 'rules: [{ name: house, class: soft, reason: other, text: [closed for repair] }]';

  it('labels anew and lifts the suppression of what an own rule decides, and leaves the rest', async () => {
    const wrong = await bounce('ana@dest.test', '550 5.1.1 closed for repair');
    const right = await bounce('bob@dest.test', '550 5.1.1 no such user');
    assert.deepEqual(await suppressed(), ['ana@dest.test', 'bob@dest.test']);
    writeFileSync(file, HOUSE);
    const tried = await app.operator.call('bounces.reclassify', { past: HOUR, dry_run: true });
    assert.deepEqual([tried.attempts, tried.unsuppressed, tried.dry_run], [1, 0, true]);
    assert.equal(await labelOf(wrong), 'hard mailbox_not_found');
    const done = await app.operator.call('bounces.reclassify', { past: HOUR });
    assert.deepEqual([done.attempts, done.unsuppressed, done.dry_run], [1, 1, false]);
    assert.deepEqual([await labelOf(wrong), await labelOf(right)], ['soft other', 'hard mailbox_not_found']);
    assert.deepEqual(await suppressed(), ['bob@dest.test']);
    assert.equal((await app.message(wrong)).status, 'bounced');
    const again = await app.operator.call('bounces.reclassify', { past: HOUR });
    assert.equal(again.attempts, 0);
    assert.ok((await app.operator.call('books', {})).balanced);
  });

  it('looks no further back than it is told', async () => {
    const old = await bounce('ana@dest.test', '550 5.1.1 closed for repair');
    app.clock.advance(3 * HOUR);
    await app.settled();
    const young = await bounce('bob@dest.test', '550 5.1.1 closed for repair');
    writeFileSync(file, HOUSE);
    assert.equal((await app.operator.call('bounces.reclassify', { past: HOUR })).attempts, 1);
    assert.deepEqual([await labelOf(old), await labelOf(young)], ['hard mailbox_not_found', 'soft other']);
    assert.deepEqual(await suppressed(), ['ana@dest.test']);
  });

  it('refuses without rules, and with rules that cannot be read', async () => {
    await assert.rejects(app.operator.call('bounces.reclassify', { past: HOUR }), /no rules/);
    writeFileSync(file, 'rules: 1');
    await assert.rejects(app.operator.call('bounces.reclassify', { past: HOUR }), /expected a list of rules/);
    await assert.rejects(app.operator.call('bounces.reclassify', { past: 0 }), /past/);
  });
});
