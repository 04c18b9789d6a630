/** The suppression list from the shell: in a folder without a server. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { exitCodes } from '../../src/cli/exit-codes.ts';
import { ran, type Ran } from './ran.ts';

describe('cli/suppressions', () => {
  let folder: string;
  const posthorn = (...args: string[]): Promise<Ran> => ran(args, { POSTHORN_DATA_DIR: path.join(folder, 'data') });
  const list = async (...args: string[]): Promise<Record<string, unknown>[]> =>
    (JSON.parse((await posthorn('suppressions', 'list', '--json', ...args)).out) as { data: Record<string, unknown>[] })
      .data;
  const file = (text: string): string => {
    const name = path.join(folder, 'list.csv');
    writeFileSync(name, text);
    return name;
  };

  beforeEach(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'posthorn-'));
    assert.equal((await posthorn('migrate')).code, 0);
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('adds, lists and removes', async () => {
    const added = await posthorn(
      'suppressions',
      'add',
      'Ana@Example.net',
      '--note',
      'by phone',
      '--for',
      '90d',
      '--json',
    );
    assert.equal(added.code, 0, added.notes);
    const record = JSON.parse(added.out) as Record<string, unknown>;
    assert.deepEqual(
      [record['email'], record['reason'], record['note'], record['created_by']],
      ['Ana@example.net', 'manual', 'by phone', 'operator'],
    );
    assert.ok(String(record['expires_at']) > String(record['created_at']));
    assert.match(
      (await posthorn('suppressions', 'add', 'ana@example.net')).out,
      /^Ana@example\.net is not mailed until/,
    );
    assert.deepEqual(
      (await list()).map(({ email }) => email),
      ['Ana@example.net'],
    );
    assert.match((await posthorn('suppressions', 'list')).out, /ADDRESS.*\nAna@example\.net +manual +account/);
    assert.match((await posthorn('suppressions', 'remove', 'ana@example.net')).out, /is mailed again/);
    const again = await posthorn('suppressions', 'remove', 'ana@example.net');
    assert.deepEqual([again.code, await list()], [exitCodes.noInput, []]);
    assert.match(again.notes, /is not on the list/);
  });

  it('says that an entry that is there stays as it is, end included, as the API leaves it', async () => {
    const add = (...args: string[]): Promise<Ran> => posthorn('suppressions', 'add', 'ana@example.net', ...args);
    const first = await add('--for', '90d');
    const [entry] = await list();
    const end = String(entry?.['expires_at']);
    assert.equal(first.out, `ana@example.net is not mailed until ${end} (manual, account)`);
    for (const [args, said] of [
      [[], ''],
      [['--for', '1d'], /^it was on the list already, and the entry keeps its end: .*posthorn suppressions remove/],
    ] as const) {
      const { code, out, notes } = await add(...args);
      assert.deepEqual([code, out], [0, first.out]);
      assert.match(notes, said === '' ? /^$/ : said);
      const { out: json, notes: none } = await add(...args, '--json');
      assert.deepEqual([JSON.parse(json), none], [entry, '']);
    }
    assert.deepEqual(await list(), [entry]);
    await posthorn('suppressions', 'remove', 'ana@example.net');
    assert.equal((await add()).out, 'ana@example.net is not mailed any more (manual, account)');
    assert.match((await add('--for', '1d')).notes, /the entry keeps its end: /);
  });

  it('imports from standard input, also where a character is cut between two pieces', async () => {
    const bytes = Buffer.from('email,note\nana@example.net,Zoë\nnot an address,\n');
    const cut = bytes.indexOf(0xc3) + 1;
    async function* input(): AsyncGenerator<Buffer> {
      yield bytes.subarray(0, cut);
      yield await Promise.resolve(bytes.subarray(cut));
    }
    const env = { POSTHORN_DATA_DIR: path.join(folder, 'data') };
    const { code, out, notes } = await ran(['suppressions', 'import', '-'], env, { input: input() });
    assert.deepEqual([code, out], [exitCodes.data, '1 added, 0 on the list already, 1 rejected'], notes);
    assert.deepEqual(
      (await list()).map(({ email, note }) => [email, note]),
      [['ana@example.net', 'Zoë']],
    );
    const faulty = await ran(['suppressions', 'import', '-'], env, {
      input: (async function* () {
        yield await Promise.resolve(Buffer.from('"a'));
      })(),
    });
    assert.equal(faulty.code, exitCodes.data);
    assert.match(faulty.notes, /standard input: /);
  });

  it('keeps a complaint unless forced', async () => {
    await posthorn('suppressions', 'add', 'ana@example.net', '--reason', 'complaint');
    assert.equal((await posthorn('suppressions', 'remove', 'ana@example.net')).code, exitCodes.data);
    assert.equal((await posthorn('suppressions', 'remove', 'ana@example.net', '--force')).code, 0);
  });

  it('says what is wrong with an address, a reason and a stream', async () => {
    for (const [args, says] of [
      [['nobody'], /\(invalid_address\)/],
      [['a@b.test', '--reason', 'dislike'], /hard_bounce/],
      [['a@b.test', '--stream', 'none'], /[Tt]here is no stream "none"/],
      [['a@b.test', '--for', '1ms'], /\(invalid_field\)/],
    ] as const) {
      const { code, notes } = await posthorn('suppressions', 'add', ...args);
      assert.equal(code, exitCodes.data, notes);
      assert.match(notes, says);
    }
    const imported = await posthorn('suppressions', 'import', folder);
    assert.deepEqual([imported.code, imported.notes.includes('is a folder')], [exitCodes.data, true]);
  });

  it('imports what it exported, and keeps what is there', async () => {
    await posthorn('suppressions', 'add', 'ana@example.net', '--note', 'a, "b"');
    await posthorn('suppressions', 'add', 'bo@example.net', '--stream', 'broadcast', '--reason', 'unsubscribe');
    const { out } = await posthorn('suppressions', 'export');
    assert.equal(out.split('\n').length, 3);
    await posthorn('suppressions', 'remove', 'ana@example.net');
    const imported = await posthorn('suppressions', 'import', file(out), '--json');
    assert.deepEqual(JSON.parse(imported.out), {
      ...{ created: 1, existing: 1, rejected: [], rejected_count: 0 },
      by_reason: { manual: 1, unsubscribe: 1 },
    });
    const [ana, bo] = await list();
    assert.deepEqual(
      [ana?.['note'], ana?.['scope'], bo?.['scope'], bo?.['reason']],
      ['a, "b"', 'account', 'stream:broadcast', 'unsubscribe'],
    );
  });

  it('exports notes to a terminal without the characters that control it, and to a file as they are', async () => {
    const note = '\u001b]0;mine\u0007 \u009b2J \u202etxt\nsecond line';
    await posthorn('suppressions', 'add', 'ana@example.net', '--note', note);
    const shown = async (isOutTerminal: boolean, ...args: string[]): Promise<string> => {
      const env = { POSTHORN_DATA_DIR: path.join(folder, 'data') };
      return (await ran(['suppressions', 'export', ...args], env, {}, { isOutTerminal })).out;
    };
    const terminal = await shown(true);
    assert.match(terminal, /"?\\u001b\]0;mine\\u0007 \\u009b2J \\u202etxt/);
    assert.doesNotMatch(terminal.replaceAll('\n', ''), /[\p{Cc}\u202e]/u);
    assert.ok((await shown(false)).includes(`"${note}"`));
    for (const isTerminal of [true, false]) {
      const text = await shown(isTerminal, '--json');
      assert.doesNotMatch(text, /[\p{Cc}\u202e]/u);
      assert.equal((JSON.parse(text) as { note: string }).note, note);
    }
  });

  it('imports what is good beside what is far too long', async () => {
    const long = 'a'.repeat(20_000);
    const lines = [
      'email,reason,stream,note,expires_at',
      `${long}@x.test`,
      `b@x.test,${long}`,
      `c@x.test,,${long}`,
      'd@x.test,,,,99999',
      'e@x.test,,,,-000001-01-01T00:00:00Z',
      `f@x.test,,,${'😀'.repeat(400)},9999-01-01T00:00:00Z`,
      'g@x.test',
    ];
    const { out: text, code } = await posthorn('suppressions', 'import', file(lines.join('\n')), '--json');
    const result = JSON.parse(text) as { created: number; rejected: { line: number; email: string; why: string }[] };
    assert.deepEqual(
      [result.created, code, result.rejected.map(({ line }) => line)],
      [2, exitCodes.data, [2, 3, 4, 5, 6]],
    );
    assert.ok(result.rejected.every(({ email, why }) => email.length < 100 && why.length < 200));
  });

  it('imports many, and names the lines it cannot use', async () => {
    const many = Array.from({ length: 1203 }, (_, i) => `user${String(i)}@example.net`);
    many[7] = 'not an address';
    const { code, out, notes } = await posthorn(
      'suppressions',
      'import',
      file(many.join('\r\n')),
      '--reason',
      'hard_bounce',
    );
    assert.deepEqual([code, out], [exitCodes.data, '1202 added, 0 on the list already, 1 rejected']);
    assert.match(notes, /^line 8: "not an address": /);
    assert.equal((await list('--reason', 'hard_bounce', '--limit', '1000')).length, 1000);
  });

  it('reads the columns of other programs, in any order', async () => {
    const text =
      'Reason,Created,"Email Address"\ncomplaint,2020,ana@example.net\nwhim,2020,bo@example.net\n,2020,cy@example.net\nfelt like it,2020,di@example.net\n';
    const { code, notes } = await posthorn('suppressions', 'import', file(text), '--reason', 'unsubscribe');
    assert.equal(code, exitCodes.data);
    assert.match(
      notes,
      /^line 3: "bo@example\.net": there is no reason "whim": hard_bounce, complaint, unsubscribe, manual$/,
    );
    assert.deepEqual((await list()).map(({ email, reason }) => [email, reason]).sort(), [
      ['ana@example.net', 'complaint'],
      ['cy@example.net', 'unsubscribe'],
      ['di@example.net', 'unsubscribe'],
    ]);
    const preview = await posthorn('suppressions', 'import', file(text), '--preview');
    assert.equal(preview.out, '3 read (complaint 1, manual 1, hard_bounce 1), 1 rejected; nothing is added');
    assert.equal((await list()).length, 3);
  });

  it('reads what spreadsheets write where decimals have a comma, and an address that began like a formula', async () => {
    const text = "\ufeffemail;reason\r\nana@example.net;complaint\r\n'+bo@example.net;manual\r\n";
    const { code, out } = await posthorn('suppressions', 'import', file(text));
    assert.deepEqual([code, out], [0, '2 added, 0 on the list already, 0 rejected']);
    assert.deepEqual((await list()).map(({ email }) => email).sort(), ['+bo@example.net', 'ana@example.net']);
    const exported = await posthorn('suppressions', 'export');
    assert.match(exported.out, /^'\+bo@example\.net,manual/m);
    assert.match((await posthorn('suppressions', 'import', file(exported.out))).out, /^0 added, 2 on the list already/);
  });

  it('says that a file is absent or broken', async () => {
    assert.equal((await posthorn('suppressions', 'import', path.join(folder, 'none.csv'))).code, exitCodes.noInput);
    const { code, notes } = await posthorn('suppressions', 'import', file('email\na@b.test\n"c'));
    assert.equal(code, exitCodes.data);
    assert.match(notes, /a quote is never closed/);
  });
});
