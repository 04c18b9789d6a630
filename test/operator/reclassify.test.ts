/** The effects of a correction on attempts and suppressions, over the whole app. */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { findingRecord, nothingFound } from '../../src/inbound/finding.ts';
import { openReportParser } from '../../src/inbound/report-reader.ts';
import { reachOperator } from '../../src/operator/door/operator.ts';
import type { ReportRow } from '../../src/storage/tables.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { dsn, sendByHand } from '../support/harness/mail-back.ts';

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

  it('knows an answer to the whole mail by a rule for that phase', async () => {
    server.options.script = { message: '550 5.1.1 no such user: closed for repair' };
    const { id } = await app.send({ to: 'ana@dest.test' });
    await app.settled();
    assert.deepEqual([await labelOf(id), await suppressed()], ['hard mailbox_not_found', ['ana@dest.test']]);
    writeFileSync(file, HOUSE.replace('name: house', 'name: house, phases: [dot]'));
    const done = await app.operator.call('bounces.reclassify', { past: HOUR });
    assert.deepEqual([done.attempts, done.reports, done.unsuppressed], [1, 0, 1]);
    assert.deepEqual([await labelOf(id), await suppressed()], ['soft other', []]);
  });

  describe('bounce mails', () => {
    const HOUSE_MAIL = HOUSE.replace('name: house', 'name: house, phases: [report]');
    const reports = (): Promise<Pick<ReportRow, 'id' | 'kind' | 'detail_json'>[]> =>
      app.app.db.reader<ReportRow>('reports').select('id', 'kind', 'detail_json').orderBy('id');
    /** The class, reason and rule of each report. */
    const labels = async (): Promise<string[]> =>
      (await reports()).map(({ detail_json: json }) => {
        const [one] = (JSON.parse(json) as { recipients: Record<'class' | 'reason' | 'rule', string>[] }).recipients;
        return `${String(one?.class)} ${String(one?.reason)} ${String(one?.rule)}`;
      });
    const handIn = async (returnPath: string, mail: string): Promise<void> => {
      const before = (await reports()).length;
      await sendByHand(app.app.ports.mx ?? 0, '', returnPath, mail);
      for (;;) {
        const all = await reports();
        if (all.length > before && all.every(({ kind }) => kind !== null)) return;
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    /** Has a mail delivered, then returned with this text; returns its return path. */
    const returned = async (to: string, text: string): Promise<string> => {
      const { id } = await app.send({ to });
      await app.follow().of(id, 'delivered');
      const { from = '' } = server.sessions.flatMap(({ mails }) => mails).at(-1) ?? {};
      await handIn(from, dsn(to, { text }));
      return from;
    };

    it('are reclassified, and give their addresses free', async () => {
      await returned('ana@dest.test', '550 5.1.1 closed for repair');
      await returned('bob@dest.test', '550 5.1.1 no such user');
      assert.deepEqual(await suppressed(), ['ana@dest.test', 'bob@dest.test']);
      writeFileSync(file, HOUSE_MAIL);
      const tried = await app.operator.call('bounces.reclassify', { past: HOUR, dry_run: true });
      assert.deepEqual([tried.attempts, tried.reports, tried.unsuppressed], [0, 1, 0]);
      assert.match((await labels())[0] ?? '', /^hard/);
      const done = await app.operator.call('bounces.reclassify', { past: HOUR });
      assert.deepEqual(done, {
        object: 'reclassification',
        attempts: 0,
        reports: 1,
        reports_unread: 0,
        unsuppressed: 1,
        dry_run: false,
      });
      const [ana = '', bob = ''] = await labels();
      assert.deepEqual([ana, bob.split(' ', 2)], ['soft other own:house', ['hard', 'mailbox_not_found']]);
      assert.deepEqual(await suppressed(), ['bob@dest.test']);
      assert.equal((await app.operator.call('bounces.reclassify', { past: HOUR })).reports, 0);
      assert.ok((await app.operator.call('books', {})).balanced);
    });

    it('are read again where the words of the notice alone say why', async () => {
      const to = 'ana@dest.test';
      const from = await returned(to, '250 ok');
      await handIn(
        from,
        `From: MAILER-DAEMON@mx.dest.test\r\nSubject: failure notice\r\n\r\n<${to}>:\r\n550 5.1.1 closed for repair\r\n`,
      );
      writeFileSync(file, HOUSE_MAIL);
      const done = await app.operator.call('bounces.reclassify', { past: HOUR });
      assert.equal(done.reports, 1);
    });

    it('keep their address suppressed while another one says that it does not exist', async () => {
      const from = await returned('ana@dest.test', '550 5.1.1 closed for repair');
      await handIn(from, dsn('ana@dest.test', { text: '550 5.1.1 no such user' }));
      writeFileSync(file, HOUSE_MAIL);
      const done = await app.operator.call('bounces.reclassify', { past: HOUR });
      assert.deepEqual([done.reports, done.unsuppressed], [1, 0]);
      assert.deepEqual(await suppressed(), ['ana@dest.test']);
    });

    it('are looked at no further back than is told, and without a server too', async () => {
      await returned('ana@dest.test', '550 5.1.1 closed for repair');
      writeFileSync(file, HOUSE_MAIL);
      app.clock.advance(3 * HOUR);
      assert.equal((await app.operator.call('bounces.reclassify', { past: HOUR })).reports, 0);
      await app.app.stop();
      const mute = reachOperator(app.config, () =>
        Promise.resolve({
          parse: () => Promise.resolve({ record: findingRecord(nothingFound), fault: 'it could not be read (slow)' }),
          close: () => Promise.resolve(),
        }),
      );
      const unread = await mute.call('bounces.reclassify', { past: 366 * 24 * HOUR });
      await mute.close();
      assert.deepEqual([unread.reports, unread.reports_unread, unread.unsuppressed], [0, 1, 0]);
      const operator = reachOperator(app.config, (keyring, rules) => Promise.resolve(openReportParser(keyring, rules)));
      try {
        // Without a server the time is that of this machine.
        const done = await operator.call('bounces.reclassify', { past: 366 * 24 * HOUR });
        assert.deepEqual([done.reports, done.unsuppressed], [1, 1]);
      } finally {
        await operator.close();
      }
    });
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
    await assert.rejects(app.operator.call('bounces.reclassify', { past: HOUR }), /a list of rules/);
    await assert.rejects(app.operator.call('bounces.reclassify', { past: 0 }), /past/);
  });
});
