import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openReportParser } from '../../src/inbound/report-reader.ts';
import { ran, type Ran } from './ran.ts';

const fixture = (name: string): string => path.resolve(import.meta.dirname, `../fixtures/reports/${name}.eml`);

describe('posthorn inbound parse', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-inbound-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });
  const parse = (...args: string[]): Promise<Ran> =>
    ran(
      ['inbound', 'parse', ...args],
      { POSTHORN_DATA_DIR: path.join(folder, 'data') },
      { openReportParser: (keyring, rules) => Promise.resolve(openReportParser(keyring, rules)) },
    );
  const lines = ({ out }: Ran): Record<string, unknown>[] =>
    out.split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);

  it('prints one object a line, in the order of the files', async () => {
    const files = ['dsn-failed', 'vacation', 'complaint'].map(fixture);
    const done = await parse(...files, '--json');
    assert.equal(done.code, 0, done.notes);
    assert.deepEqual(
      lines(done).map(({ file, kind }) => [file, kind]),
      [
        [files[0], 'bounce'],
        [files[1], 'auto_reply'],
        [files[2], 'complaint'],
      ],
    );
    assert.deepEqual(lines(done)[0], {
      file: files[0],
      kind: 'bounce',
      token: '101jz00000000000000000000070123456789abcdef',
      message_id: 'msg_01jz0000000000000000000007',
      recipients: [
        {
          address: 'ana@remote.example',
          original: 'ana.lang@remote.example',
          action: 'failed',
          status: '5.1.1',
          status_from: 'report',
          diagnostic:
            '550 5.1.1 <ana@remote.example>: Recipient address rejected: User unknown in virtual mailbox table',
          class: 'hard',
          reason: 'mailbox_not_found',
          rule: 'enhanced:unknown-mailbox',
        },
      ],
      feedback_type: null,
      feedback_source: null,
    });
  });

  it('goes by the own rules of the settings, as the listener does', async () => {
    const rules = path.join(folder, 'rules.yaml');
    writeFileSync(rules, 'rules: [{ name: house, class: soft, reason: other, text: [user unknown] }]');
    const settings = path.join(folder, 'posthorn.yaml');
    writeFileSync(settings, `delivery: { bounceRules: [${rules}] }`);
    const [line] = lines(await parse(fixture('dsn-failed'), '--json', '--config', settings));
    const [recipient] = line?.['recipients'] as Record<string, unknown>[];
    assert.deepEqual(
      [recipient?.['class'], recipient?.['reason'], recipient?.['rule']],
      ['soft', 'other', 'own:house'],
    );
    writeFileSync(rules, 'rules: 1');
    assert.equal((await parse(fixture('dsn-failed'), '--config', settings)).code, 78);
  });

  it('prints a table for people, a row a recipient', async () => {
    const done = await parse(fixture('dsn-several'), fixture('complaint-redacted'));
    assert.match(done.out, /^FILE +KIND +RECIPIENT +ACTION +STATUS +CLASS +REASON\n/);
    assert.match(done.out, /bounce +a@gw\.example +failed +5\.2\.2 +soft +mailbox_full\n/);
    assert.match(done.out, /complaint \(fraud\) +- +- +- +- +-$/);
    assert.equal(done.out.split('\n').length, 6);
  });

  it('reads a mail to the end that comes through a pipe', async () => {
    const pipe = path.join(folder, 'pipe');
    assert.equal(spawnSync('mkfifo', [pipe]).status, 0);
    const writer = spawn('sh', [
      '-c',
      '(head -c 300 "$0"; sleep 0.2; tail -c +301 "$0") > "$1"',
      fixture('dsn-failed'),
      pipe,
    ]);
    const [piped, read] = [
      lines(await parse(pipe, '--json'))[0],
      lines(await parse(fixture('dsn-failed'), '--json'))[0],
    ];
    writer.kill();
    assert.deepEqual({ ...piped, file: '' }, { ...read, file: '' });
  });

  it('goes on after a file that cannot be read, and says so with 66', async () => {
    const done = await parse(path.join(folder, 'none.eml'), folder, fixture('vacation'), '--json');
    assert.equal(done.code, 66);
    assert.match(done.notes, /none\.eml: ENOENT/);
    assert.match(done.notes, /EISDIR/);
    assert.deepEqual(
      lines(done).map(({ kind }) => kind),
      ['auto_reply'],
    );
  });

  it('takes what is no mail for something else', async () => {
    for (const [name, content] of [
      ['empty.eml', ''],
      ['zeros.eml', '\0'.repeat(1000)],
      ['large.eml', 'x'.repeat(2_000_000)],
    ] as const) {
      writeFileSync(path.join(folder, name), content);
      const [line] = lines(await parse(path.join(folder, name), '--json'));
      assert.deepEqual([line?.['kind'], line?.['recipients']], ['other', []]);
    }
  });

  it('leaves out a token that the keys of the installation did not make', async () => {
    mkdirSync(path.join(folder, 'data'));
    const file = path.join(folder, 'data', 'secret.key');
    writeFileSync(file, `k1 ${Buffer.alloc(32, 1).toString('base64url')}\n`, { mode: 0o600 });
    const [line] = lines(await parse(fixture('dsn-failed'), '--json'));
    assert.deepEqual([line?.['kind'], line?.['token']], ['bounce', null]);
  });

  it('goes by the form alone where the keys cannot be read, and says so', async () => {
    mkdirSync(path.join(folder, 'data'));
    writeFileSync(path.join(folder, 'data', 'secret.key'), 'nonsense', { mode: 0o600 });
    const done = await parse(fixture('dsn-failed'), '--json');
    assert.match(done.notes, /by their form alone/);
    assert.equal(lines(done)[0]?.['token'], '101jz00000000000000000000070123456789abcdef');
  });

  it('shows nothing that could steer a terminal', async () => {
    const file = path.join(folder, 'odd.eml');
    writeFileSync(
      file,
      'From: MAILER-DAEMON@x.example\nSubject: failure notice\n\n<a@b.example>: 550 5.1.1 \u001b[31m\u009b1m red\n',
    );
    for (const args of [[], ['--json']]) {
      const { out } = await parse(file, ...args);
      assert.doesNotMatch(out, /[\u001b\u009b]/);
    }
  });

  it('reads a thousand files in one call', async () => {
    const names = readdirSync(path.dirname(fixture('person'))).filter((name) => name.endsWith('.eml'));
    const files = Array.from({ length: 1000 }, (_, n) => {
      const file = path.join(folder, `${String(n)}.eml`);
      writeFileSync(
        file,
        `${readFileSync(fixture((names[n % names.length] ?? '').slice(0, -4)), 'utf8')}\n${'.'.repeat(n)}`,
      );
      return file;
    });
    const done = await parse(...files, '--json');
    assert.equal(done.code, 0, done.notes);
    assert.deepEqual(
      lines(done).map(({ file }) => file),
      files,
    );
  });

  it('wants a file', async () => {
    assert.equal((await parse()).code, 64);
  });
});
