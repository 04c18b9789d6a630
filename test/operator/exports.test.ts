/** Exports: written page by page, over a crash, within their limits, and gone after a week. */
import assert from 'node:assert/strict';
import { appendFile, mkdtemp, readFile, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { newId } from '../../src/base/id.ts';
import { Problem } from '../../src/base/problem.ts';
import { DAY_MS } from '../../src/base/time.ts';
import { requireFile } from '../../src/operator/export-parts.ts';
import { exportRule, oldExports, strayExports } from '../../src/operator/export-rule.ts';
import { exportFolder, fileOf, type ExportKind, type ExportRecord } from '../../src/operator/exports.ts';
import { ensureDefaultAccount } from '../../src/accounts/account-store.ts';
import { contentRow, messageRow } from '../support/harness/mail-rows.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { Office } from './office.ts';

const ROWS = 950;
const NO_FILE = 'an export on PostgreSQL has no file while it is written';

describe('operator/exports', () => {
  let office: Office;
  let hasRoom = true;

  beforeEach(async () => {
    hasRoom = true;
    office = await Office.open();
    const { id: account_id } = await ensureDefaultAccount(office.deps);
    const content = contentRow({ account_id });
    const now = office.clock.now();
    const messages = Array.from({ length: ROWS }, (_, n) =>
      messageRow({
        account_id,
        content_id: content.id,
        created_at: now - n - 1,
        id: newId('msg', now - n - 1),
        subject: n === 0 ? '=HYPERLINK("x")' : `No ${String(n)}, "a"`,
      }),
    );
    await office.deps.db.commit.insert({ contents: [content], messages });
  });
  afterEach(() => office.close());

  const step = (mostBytes?: number): Promise<number> =>
    exportRule({ ...office.deps, hasRoom: () => hasRoom }, mostBytes).step();
  const create = (kind: ExportKind = 'messages', query: Record<string, string> = {}): Promise<ExportRecord> =>
    office.run('exports.create', { kind, query });
  const only = async (): Promise<ExportRecord> => {
    const { data } = await office.run('exports.list', {});
    assert.ok(data[0]);
    return data[0];
  };
  const writeAll = async (): Promise<void> => {
    while ((await step()) > 0);
  };
  const linesOf = async ({ id }: ExportRecord): Promise<string[]> =>
    (await readFile((await office.run('exports.file', { id })).path, 'utf8')).trimEnd().split('\n');
  const refusal = async (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'done',
      (error: unknown) => (error instanceof Problem ? error.code : String(error)),
    );

  it('writes all rows, counts them, and lets nobody else read the file', async () => {
    const made = await create();
    assert.equal(made.state, 'waiting');
    assert.equal(await refusal(office.run('exports.file', { id: made.id })), 'invalid_state', 'nothing to fetch yet');
    assert.equal(await step(), 1);
    const half = await only();
    assert.deepEqual([half.state, half.rows], ['running', 400]);
    await writeAll();
    const done = await only();
    const lines = await linesOf(done);
    assert.deepEqual([done.state, done.rows, lines.length, done.is_cut], ['done', ROWS, ROWS + 1, false]);
    assert.equal(new Set(lines).size, ROWS + 1, 'each once');
    assert.match(lines[0] ?? '', /^id,created_at,status,from,to,subject,stream,/);
    assert.ok(lines.some((line) => line.includes(',"No 1, ""a""",transactional,')));
    const { path: file, name, bytes } = await office.run('exports.file', { id: made.id });
    const { mode, size } = await stat(file);
    assert.deepEqual([mode & 0o777, size, bytes], [0o600, size, size]);
    assert.match(name, /^messages-\d{4}-\d\d-\d\d\.csv$/);
    assert.equal(await step(), 0, 'nothing is left to do');
  });

  it('keeps a spreadsheet from taking a value as a formula', async () => {
    const made = await create();
    await writeAll();
    const line = (await linesOf(made)).find((one) => one.includes('HYPERLINK'));
    assert.match(line ?? '', /,"'=HYPERLINK\(""x""\)",/);
  });

  it('goes on after a crash where it was, without what was not committed', async function () {
    if (isOnPostgres) this.skip(NO_FILE);
    const made = await create();
    await step();
    await appendFile(fileOf(office.config, made), 'half a line that no commit kn');
    await writeAll();
    const lines = await linesOf(made);
    assert.deepEqual([lines.length, new Set(lines).size], [ROWS + 1, ROWS + 1]);
  });

  it('goes on when the database is back that was away for a moment', async function () {
    if (!isOnPostgres) this.skip('SQLite is never away');
    await create();
    await step();
    const { inside } = office.deps;
    const away = {
      ...inside,
      ask: () => Promise.reject(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })),
    };
    await assert.rejects(exportRule({ ...office.deps, inside: away, hasRoom: () => true }).step(), /ECONNRESET/);
    await writeAll();
    const done = await only();
    assert.deepEqual([done.state, done.rows, (await linesOf(done)).length], ['done', ROWS, ROWS + 1]);
  });

  it('has failed, and says why, where its file is gone or the disk is full', async function () {
    if (isOnPostgres) this.skip(NO_FILE);
    const lost = await create();
    await step();
    await unlink(fileOf(office.config, lost));
    await writeAll();
    const first = await only();
    assert.deepEqual(
      [first.state, first.error],
      ['failed', 'The file could not be written; the log of the server has the reason.'],
    );
    office.clock.advance(1000);
    await create();
    hasRoom = false;
    await writeAll();
    const second = await only();
    assert.deepEqual([second.state, second.error], ['failed', 'The disk of the server is full.']);
  });

  it('ends at the largest size, and says that it is cut', async () => {
    const made = await create();
    while ((await step(60_000)) > 0);
    const { state, is_cut, rows, bytes } = await only();
    assert.deepEqual([state, is_cut], ['done', true]);
    assert.ok(bytes <= 60_000 && rows > 0 && rows < ROWS, `${String(rows)} rows`);
    assert.equal((await linesOf(made)).length, rows + 1, 'whole lines only');
  });

  it('takes turns, so that a long one does not keep others waiting', async () => {
    await create();
    office.clock.advance(1000);
    const short = await create('stats', { by: 'stream' });
    office.clock.advance(1000);
    await step();
    office.clock.advance(1000);
    await step();
    const { data } = await office.run('exports.list', {});
    assert.deepEqual(
      data.map(({ id, state }) => [id === short.id, state]),
      [
        [true, 'done'],
        [false, 'running'],
      ],
    );
  });

  for (const [kind, head] of [
    ['events', 'id,timestamp,type,message_id,recipient,subject,tags,test,detail'],
    ['stats', 'at,key,sent,delivered,deferred,bounced,'],
    ['audit', 'at,actor,key_id,ip,method,endpoint,path,status,'],
  ] as const)
    it(`writes ${kind}`, async () => {
      const made = await create(kind);
      await writeAll();
      assert.equal((await only()).state, 'done');
      assert.ok((await linesOf(made))[0]?.startsWith(head), (await linesOf(made))[0]);
    });

  it('writes NDJSON: the records as the API has them, one a line, and no heading', async () => {
    const made: ExportRecord = await office.run('exports.create', { kind: 'messages', format: 'ndjson' });
    await writeAll();
    const { name, path: file } = await office.run('exports.file', { id: made.id });
    assert.match(`${name} ${file}`, /^messages-\d{4}-\d\d-\d\d\.ndjson .*\.ndjson$/);
    const records = (await linesOf(made)).map((line) => JSON.parse(line) as { object: string; id: string });
    assert.deepEqual([records.length, new Set(records.map(({ id }) => id)).size], [ROWS, ROWS]);
    assert.ok(records.every(({ object }) => object === 'message'));
    assert.equal(
      await refusal(office.run('exports.create', { kind: 'stats', format: 'xml' as 'csv' })),
      'invalid_field',
    );
  });

  it('refuses what the list does not know, at once', async () => {
    for (const [query, code] of [
      [{ status: 'nonsense' }, 'invalid_parameter'],
      [{ colour: 'blue' }, 'invalid_parameter'],
      [{ subject: 'x'.repeat(1001) }, 'field_too_long'],
      [Object.fromEntries(Array.from({ length: 31 }, (_, n) => [`p${String(n)}`, '1'])), 'invalid_field'],
    ] as const)
      assert.equal(await refusal(create('messages', query)), code, JSON.stringify(query).slice(0, 60));
    assert.equal(await refusal(create('secrets' as ExportKind)), 'invalid_field');
    assert.equal((await office.run('exports.list', {})).data.length, 0);
  });

  it('is limited: three at a time, twenty kept', async () => {
    for (let n = 0; n < 3; n += 1) await create('stats');
    assert.equal(await refusal(create('stats')), 'invalid_state');
    for (let n = 3; n < 20; n += 1) {
      await writeAll();
      await create('stats');
    }
    await writeAll();
    assert.equal(await refusal(create('stats')), 'invalid_state');
    const { data } = await office.run('exports.list', {});
    await office.run('exports.remove', { id: data[0]?.id ?? '' });
    assert.equal(await refusal(create('stats')), 'done');
  });

  it('is for its account alone', async () => {
    const made = await create();
    await writeAll();
    await office.run('accounts.add', { name: 'Other' });
    for (const name of ['exports.file', 'exports.remove'] as const)
      assert.equal(await refusal(office.run(name, { account: 'Other', id: made.id })), 'not_found');
    assert.equal((await office.run('exports.list', { account: 'Other' })).data.length, 0);
    assert.equal((await only()).state, 'done');
  });

  it('goes after seven days, with files that no row names', async () => {
    const made = await create('stats');
    await writeAll();
    await office.run('exports.file', { id: made.id });
    const stray = fileOf(office.config, { id: 'exp_stray', format: 'ndjson' });
    await writeFile(stray, 'x');
    await strayExports(office.deps).step();
    await assert.rejects(stat(stray), /ENOENT/);
    await stat(fileOf(office.config, made));
    office.clock.advance(7 * DAY_MS + 1);
    assert.equal(await oldExports(office.deps).step(), 1);
    await assert.rejects(stat(fileOf(office.config, made)), /ENOENT/);
    assert.equal((await office.run('exports.list', {})).data.length, 0);
  });

  it('ends when it is removed, and leaves no file', async () => {
    const made = await create();
    await step();
    await office.run('exports.remove', { id: made.id });
    assert.equal(await step(), 0);
    await assert.rejects(stat(fileOf(office.config, made)), /ENOENT/);
    if (!isOnPostgres) await stat(exportFolder(office.config));
  });

  it('has a file on each node that is asked for it, made from what the database has', async function () {
    if (!isOnPostgres) this.skip('only PostgreSQL has several nodes');
    const made = await create();
    await writeAll();
    const elsewhere = await mkdtemp(path.join(tmpdir(), 'ph-'));
    const other = fileOf({ dataDir: elsewhere }, made);
    const { bytes } = await only();
    const row = { id: made.id, bytes_done: bytes };
    await Promise.all([1, 2, 3].map(() => requireFile(office.deps.db, row, other)));
    assert.equal((await readFile(other, 'utf8')).trimEnd(), (await linesOf(made)).join('\n'));
    await writeFile(other, 'what an interrupted copy has left');
    await requireFile(office.deps.db, row, other);
    assert.equal((await stat(other)).size, bytes);
    await office.run('exports.remove', { id: made.id });
    await strayExports({ db: office.deps.db, config: { dataDir: elsewhere } }).step();
    await assert.rejects(stat(other), /ENOENT/);
    assert.equal(await refusal(requireFile(office.deps.db, row, other)), 'not_found');
    assert.deepEqual(await office.deps.db.prepared.all('SELECT 1 FROM export_parts'), []);
    await rm(elsewhere, { recursive: true });
  });
});

describe('operator/saved-views', () => {
  let office: Office;
  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  const save = (name: string, page: '/messages' | '/events' = '/messages'): Promise<unknown> =>
    office.run('views.save', { page, name, query: `q=${name}` });

  it('keeps one of each name for a page, in order, until it is removed', async () => {
    for (const name of ['Bounces', 'All', 'Bounces']) await save(name);
    await save('Bounces', '/events');
    const { data } = await office.run('views.list', { page: '/messages' });
    assert.deepEqual(
      data.map(({ name, query }) => [name, query]),
      [
        ['All', 'q=All'],
        ['Bounces', 'q=Bounces'],
      ],
    );
    await office.run('views.remove', { id: data[0]?.id ?? '' });
    assert.equal((await office.run('views.list', { page: '/messages' })).data.length, 1);
  });

  it('has at most twenty, and a name', async () => {
    for (let n = 0; n < 20; n += 1) await save(`View ${String(n)}`);
    await assert.rejects(save('One more'), /at most 20/);
    await save('View 3');
    for (const name of ['', '   ', 'x'.repeat(61)]) await assert.rejects(save(name), Problem);
    await assert.rejects(office.run('views.remove', { id: 'viw_none' }), /no such view/);
  });
});
