/** DMARC and TLS aggregate reports that come by mail: into rows, and out again as `posthorn reputation`. */
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { createTransport } from 'nodemailer';
import { addToStats } from '../../src/events/stats.ts';
import { oldRule } from '../support/harness/old-rule.ts';
import type { StatRow } from '../../src/storage/tables.ts';
import { databaseBytes } from '../support/harness/temp-database.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { dmarcXml } from '../support/harness/dmarc.ts';
import { tlsReportJson } from '../support/harness/tls-report.ts';
import { zip } from '../support/harness/zip.ts';

const xml = dmarcXml('acme.test', [
  { ip: '192.0.2.1', count: 12 },
  { ip: '198.51.100.9', count: 3, dkim: 'fail', spf: 'fail', disposition: 'reject' },
]);
const tlsJson = tlsReportJson(
  {
    domain: 'rp.acme.test',
    type: 'no-policy-found',
    successes: 7,
    failures: 3,
    details: [
      {
        'result-type': 'certificate-expired',
        'sending-mta-ip': '203.0.113.1',
        'receiving-mx-hostname': 'mail.posthorn.test',
        'receiving-ip': '192.0.2.1',
        'failed-session-count': 2,
      },
    ],
  },
  { domain: 'stranger.test', type: 'no-policy-found', successes: 99, failures: 0, details: [] },
);

interface Row {
  kind: string | null;
  state: string;
  detail_json: string;
}

describe('journey: aggregate reports', () => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startTestApp();
  });
  afterEach(() => app.stop());

  async function report(to: string, filename: string, content: Buffer, contentType: string): Promise<void> {
    const transport = createTransport({
      host: '127.0.0.1',
      port: app.app.ports.mx ?? 0,
      tls: { rejectUnauthorized: false },
      greetingTimeout: 300_000,
    });
    await transport.sendMail({
      from: 'noreply@isp.test',
      to,
      subject: 'Report domain: acme.test Submitter: isp.test',
      text: 'A report.',
      attachments: [{ filename, content, contentType }],
    });
  }
  async function read(count: number): Promise<Row[]> {
    for (;;) {
      const rows = await app.app.db.prepared.all<Row>('SELECT kind, state, detail_json FROM reports ORDER BY id');
      if (rows.length === count && rows.every(({ kind }) => kind !== null)) return rows;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  const rows = <Found>(sql: string): Promise<Found[]> => app.app.db.prepared.all<Found & object>(sql);

  for (const [how, name, content, type] of [
    ['zip', 'isp.test!acme.test!1769817600!1769903999.zip', zip(Buffer.from(xml)), 'application/zip'],
    ['gzip', 'isp.test!acme.test!1769817600!1769903999.xml.gz', gzipSync(xml), 'application/gzip'],
    ['plain XML', 'isp.test!acme.test!1769817600!1769903999.xml', Buffer.from(xml), 'text/xml'],
    ['a type of its own', 'isp.test!acme.test!1769817600!1769903999.xml.gz', gzipSync(xml), 'application/x-compressed'],
  ] as const)
    it(`reads a DMARC report in ${how}`, async () => {
      await report('dmarc@rp.acme.test', name, content, type);
      const [row] = await read(1);
      assert.deepEqual([row?.kind, row?.state], ['report', 'done']);
      assert.deepEqual(
        await rows(
          'SELECT org, domain, source_ip, count, dkim, spf, disposition, dkim_selector FROM dmarc_rows ORDER BY id',
        ),
        [
          {
            org: 'isp.test',
            domain: 'acme.test',
            source_ip: '192.0.2.1',
            count: 12,
            dkim: 'pass',
            spf: 'pass',
            disposition: 'none',
            dkim_selector: 'ph1',
          },
          {
            org: 'isp.test',
            domain: 'acme.test',
            source_ip: '198.51.100.9',
            count: 3,
            dkim: 'fail',
            spf: 'fail',
            disposition: 'reject',
            dkim_selector: 'ph1',
          },
        ],
      );
    });

  it('reads a TLS report, of which only what is about us counts, and shows all of it', async () => {
    await report('tls@mail.posthorn.test', 'r.json.gz', gzipSync(tlsJson), 'application/tlsrpt+gzip');
    await report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.zip', zip(Buffer.from(xml)), 'application/zip');
    await read(2);
    const reputation = await app.operator.call('reputation', { days: 7 });
    assert.deepEqual(
      reputation.tls.map(({ day, org, result, sessions }) => [day, org, result, sessions]),
      [
        ['2026-01-31', 'isp.test', 'success', 7],
        ['2026-01-31', 'isp.test', 'certificate-expired', 2],
        ['2026-01-31', 'isp.test', 'unknown', 1],
      ],
    );
    assert.deepEqual(
      reputation.dmarc.map(({ day, source_ip, count, dkim }) => [day, source_ip, count, dkim]),
      [
        ['2026-01-31', '192.0.2.1', 12, 'pass'],
        ['2026-01-31', '198.51.100.9', 3, 'fail'],
      ],
    );
    await app.operator.call('accounts.add', { name: 'other' });
    const other = await app.operator.call('reputation', { account: 'other' });
    assert.deepEqual([other.tls, other.dmarc, other.days], [[], [], []]);
  });

  it('shows them to no account that only claims the domain, or has a name below that of another', async () => {
    await app.operator.call('accounts.add', { name: 'other' });
    const add = (account: string, body: object) => app.operator.ask('createDomain', { account, body });
    const dmarcOf = async (account: string) => (await app.operator.call('reputation', { account })).dmarc.length;
    await add('other', { name: 'shop.test' });
    const about = xml.replaceAll('acme.test', 'shop.test');
    await report('dmarc@rp.acme.test', 'isp.test!shop.test!1!2.zip', zip(Buffer.from(about)), 'application/zip');
    await read(1);
    assert.equal(await dmarcOf('other'), 0, 'a claim that was never proved');
    await add('default', { name: 'shop.test', trusted: true });
    assert.deepEqual([await dmarcOf('default'), await dmarcOf('other')], [2, 0]);
    await add('other', { name: 'sub.shop.test' });
    assert.equal(await dmarcOf('other'), 0, 'a claim below it');
    await add('other', { name: 'own.shop.test', trusted: true });
    assert.equal(await dmarcOf('other'), 0, 'a domain below it');
  });

  it('shows those about the domain above, whose policy may apply, where no other account has it', async () => {
    await app.operator.call('accounts.add', { name: 'other' });
    const body = { name: 'news.foreign.test', trusted: true };
    await app.operator.ask('createDomain', { account: 'other', body });
    const about = xml.replaceAll('acme.test', 'foreign.test');
    await report('dmarc@rp.acme.test', 'isp.test!foreign.test!1!2.zip', zip(Buffer.from(about)), 'application/zip');
    await read(1);
    assert.equal((await app.operator.call('reputation', { account: 'other' })).dmarc.length, 2);
    assert.deepEqual((await app.operator.call('reputation', {})).dmarc, []);
  });

  it('logs a report under our name of it, whatever it calls itself', async () => {
    const named = dmarcXml('acme.test', [{ ip: '192.0.2.1', count: 1 }], { id: 'rep_00000000000000000000000000' });
    await report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.zip', zip(Buffer.from(named)), 'application/zip');
    await read(1);
    // The line is written after the row.
    const logged = () => app.logged.find(({ event }) => event === 'report');
    while (logged() === undefined) await new Promise((resolve) => setImmediate(resolve));
    const line = logged();
    const [row] = await rows<{ id: string }>('SELECT id FROM reports');
    assert.deepEqual([line?.['report_id'], line?.['aggregate_id']], [row?.id, 'rep_00000000000000000000000000']);
  });

  it('counts a report once however often it is sent', async () => {
    for (let time = 1; time <= 2; time++) {
      await report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.zip', zip(Buffer.from(xml)), 'application/zip');
      await read(time);
    }
    assert.deepEqual(await rows('SELECT sum(count) AS n FROM dmarc_rows'), [{ n: 15 }]);
  });

  it('counts a report once of which several copies are read at once, and one of the next day by itself', async () => {
    const copies = Array.from({ length: 8 }, () =>
      report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.zip', zip(Buffer.from(xml)), 'application/zip'),
    );
    await Promise.all(copies);
    const details = (await read(8)).map(
      ({ detail_json }) => JSON.parse(detail_json) as { aggregate: { already_counted: boolean } },
    );
    assert.equal(details.filter(({ aggregate }) => aggregate.already_counted).length, 7);
    assert.deepEqual(await rows('SELECT sum(count) AS n FROM dmarc_rows'), [{ n: 15 }]);
    // Some begin the numbers of their reports again each day.
    const next = xml
      .replace(/<begin>(\d+)</, (_, begin: string) => `<begin>${String(Number(begin) + 86_400)}<`)
      .replace(/<end>(\d+)</, (_, end: string) => `<end>${String(Number(end) + 86_400)}<`);
    assert.notEqual(next, xml);
    await report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.zip', zip(Buffer.from(next)), 'application/zip');
    await read(9);
    assert.deepEqual(await rows('SELECT sum(count) AS n FROM dmarc_rows'), [{ n: 30 }]);
  });

  it('takes nothing about domains of others, and nothing from what cannot be unpacked', async () => {
    const foreign = dmarcXml('stranger.test', [{ ip: '192.0.2.1', count: 1 }]);
    const bomb = zip(Buffer.alloc(20_000_000, 32));
    for (const [count, content] of [foreign, bomb, 'no xml'].entries()) {
      await report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.xml', Buffer.from(content), 'application/zip');
      await read(count + 1);
    }
    assert.deepEqual(await rows('SELECT * FROM dmarc_rows'), []);
    assert.deepEqual(
      (await read(3)).map(({ kind, state }) => [kind, state]),
      [
        ['report', 'unmatched'],
        ['report', 'unreadable'],
        ['report', 'unreadable'],
      ],
    );
  });

  describe('that are hostile', () => {
    const DAY = 86_400;
    const now = (): number => Math.floor(app.clock.now() / 1000);
    /** In gzip and base64 about 65 KB. */
    const many = (n: number, value: string, name: string): string =>
      dmarcXml(
        'acme.test',
        Array.from({ length: 3400 }, (_, at) => ({
          ip: `192.${String(n)}.${String(at >> 8)}.${String(at & 255)}`,
          count: 1,
          dkim: value,
          spf: value,
          disposition: value === 'pass' ? 'none' : value,
        })),
        { id: `r${String(n)}`, begin: String(now() - DAY), end: String(now()) },
      ).replaceAll('<envelope_from>rp.acme.test', `<envelope_from>${name}`);
    const pages = (): Promise<number> => databaseBytes(app.app.db);

    for (const [what, value, name, most] of [
      ['values that do not exist', 'x'.repeat(250), 'rp.acme.test', 5],
      ['names that are none', 'pass', 'a b '.repeat(60), 5],
      ['valid values only', 'pass', `${'a'.repeat(60)}.${'b'.repeat(36)}.test`, 20],
    ] as const)
      it(`make the database grow by at most ${String(most)} times their size: ${what}`, async () => {
        const before = await pages();
        let sent = 0;
        for (let n = 0; n < 5; n++) {
          const content = gzipSync(many(n, value, name), { level: 1 });
          sent += content.length * 1.37;
          await report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.xml.gz', content, 'application/gzip');
          await read(n + 1);
        }
        const grown = (await pages()) - before;
        assert.ok(
          grown <= most * sent,
          `${String(grown)} of ${String(sent)} bytes: ${(grown / sent).toFixed(1)} times`,
        );
      });

    for (const [what, begin, end] of [
      ['in the year 5138', 99_999_999_998, 99_999_999_999],
      ['in three days', 3 * DAY, 4 * DAY],
      ['that ends in three days', 0, 3 * DAY],
      ['401 days ago', -401 * DAY, -400 * DAY],
    ] as const)
      it(`count for nothing with a period ${what}`, async () => {
        const at = (offset: number): string => String(offset > 10_000_000_000 ? offset : now() + offset);
        const content = dmarcXml('acme.test', [{ ip: '192.0.2.1', count: 1 }], { begin: at(begin), end: at(end) });
        await report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.xml', Buffer.from(content), 'text/xml');
        const [row] = await read(1);
        assert.equal(row?.state, 'unmatched');
        assert.match(row.detail_json, /"refused":"its period/);
        assert.deepEqual(await rows('SELECT * FROM dmarc_rows'), []);
        assert.deepEqual(await rows('SELECT * FROM aggregate_reports'), []);
      });

    it('use up the budget of their domain for a day, and are noted then', async () => {
      for (let n = 0; n < 6; n++) {
        await report(
          'dmarc@rp.acme.test',
          'isp.test!acme.test!1!2.xml.gz',
          gzipSync(many(n, 'pass', 'rp.acme.test')),
          'application/gzip',
        );
        await read(n + 1);
      }
      assert.deepEqual(await rows('SELECT COUNT(*) AS n FROM dmarc_rows'), [{ n: 5000 }]);
      assert.match((await read(6)).at(-1)?.detail_json ?? '', /too many records for one day/);
      assert.deepEqual(await rows('SELECT length(raw) AS n FROM reports ORDER BY id LIMIT 1'), [{ n: 0 }]);
      app.clock.advance(DAY * 1000);
      await report(
        'dmarc@rp.acme.test',
        'isp.test!acme.test!1!2.xml.gz',
        gzipSync(many(9, 'pass', 'rp.acme.test')),
        'application/gzip',
      );
      await read(7);
      assert.deepEqual(await rows('SELECT COUNT(*) AS n FROM dmarc_rows'), [{ n: 6000 }]);
    });

    it('show the numbers of others also where their own counts cannot be added up', async () => {
      const odd = JSON.parse(tlsJson) as { policies: object[] };
      const policy = { 'policy-type': 'sts', 'policy-domain': 'rp.acme.test' };
      const detail = { 'result-type': 'certificate-expired', 'failed-session-count': Number.MAX_SAFE_INTEGER };
      const flood = { policy, summary: {}, 'failure-details': Array.from({ length: 500 }, () => detail) };
      for (let n = 0; n < 2; n++) {
        const content = JSON.stringify({ ...odd, 'report-id': `odd${String(n)}`, policies: [flood, flood] });
        await report('tls@mail.posthorn.test', 'r.json.gz', gzipSync(content), 'application/tlsrpt+gzip');
      }
      await report('tls@mail.posthorn.test', 'r.json.gz', gzipSync(tlsJson), 'application/tlsrpt+gzip');
      await read(3);
      const { tls } = await app.operator.call('reputation', { days: 7 });
      assert.deepEqual(
        tls.map(({ policy: one, result, sessions }) => [one, result, sessions]),
        [
          ['no-policy-found', 'success', 7],
          ['no-policy-found', 'certificate-expired', 2],
          ['no-policy-found', 'unknown', 1],
        ],
      );
    });

    it('are removed 400 days after they came, whatever they say', async () => {
      await report('dmarc@rp.acme.test', 'isp.test!acme.test!1!2.xml', Buffer.from(xml), 'text/xml');
      await read(1);
      const { db } = app.app;
      const rules = ['old DMARC rows', 'old aggregate reports'].map((name) => oldRule(db, app.clock, name));
      for (const rule of rules) assert.equal(await rule.step(100, db.commit), 0);
      app.clock.advance(401 * DAY * 1000);
      for (const rule of rules) assert.notEqual(await rule.step(100, db.commit), 0);
      assert.deepEqual(await rows('SELECT domain FROM dmarc_rows UNION SELECT domain FROM aggregate_reports'), []);
    });
  });

  it('shows what became of mail by day and mailbox provider', async () => {
    const follower = app.follow();
    for (const to of ['delivered@simulator.posthorn.test', 'bounced@simulator.posthorn.test']) {
      const { id } = await app.send({ to });
      await follower.of(id, to.slice(0, to.indexOf('@')));
    }
    const real = await app.operator.call('reputation', {});
    assert.deepEqual(real.days, [], 'simulated mail has no reputation');
    const counted = new Map<string, StatRow>();
    const accountId = (await rows<{ id: string }>('SELECT id FROM accounts'))[0]?.id ?? '';
    const facts = {
      accountId,
      at: Date.parse('2026-01-30'),
      test: false,
      stream: 's',
      domain: 'acme.test',
      recipient: 'a@gmail.com',
      tags: [],
      template: null,
    };
    for (let n = 0; n < 4; n++) addToStats(counted, facts, ['deferred']);
    await app.app.db.commit.insert({ event_counts: [...counted.values()] });
    const { days, providers } = await app.operator.call('reputation', { days: 2 });
    assert.deepEqual(
      days.map(({ day, provider, counts }) => [day, provider, counts.deferred]),
      [['2026-01-30', null, 4]],
    );
    assert.deepEqual(
      providers.map(({ day, provider, counts }) => [day, provider, counts.deferred]),
      [['2026-01-30', 'google', 4]],
    );
  });
});
