import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { run } from '../../src/cli/cli.ts';

interface Ran {
  code: number;
  out: string;
  notes: string;
}

async function posthorn(args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
  const [out, notes]: [string[], string[]] = [[], []];
  const sinks = { out: (line: string) => void out.push(line), note: (line: string) => void notes.push(line) };
  const code = await run(args, { POSTHORN_SMTP__HOSTNAME: 'mail.example.com', ...env }, sinks);
  return { code, out: out.join('\n'), notes: notes.join('\n') };
}

describe('posthorn config', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-cli-'));
  });
  after(() => {
    rmSync(folder, { recursive: true });
  });

  it('check says that all is good, and warns', async () => {
    const { code, out, notes } = await posthorn(['config', 'check'], { POSTHORN_HTTP__PROT: '1' });
    assert.equal(code, 0);
    assert.match(out, /the settings are good/);
    assert.match(notes, /POSTHORN_HTTP__PROT is not a setting/);
  });

  it('check ends with 78 and a line for each mistake', async () => {
    const file = path.join(folder, 'bad.yaml');
    writeFileSync(file, 'http:\n  port: eighty\n  hots: x\n');
    const { code, out, notes } = await posthorn(['--config', file, 'config', 'check'], { POSTHORN_LOG__LEVEL: 'loud' });
    assert.equal(code, 78);
    assert.equal(out, '');
    assert.deepEqual(
      notes
        .split('\n')
        .map((line) => line.split(/[: ]/)[0])
        .sort(),
      ['http.hots', 'http.port', 'log.level'],
    );
  });

  it('check finds a data folder whose path is too long for its socket, as every command does', async () => {
    const env = { POSTHORN_DATA_DIR: path.join(folder, 'x'.repeat(100)) };
    for (const args of [
      ['config', 'check'],
      ['keys', 'list'],
    ]) {
      const { code, notes } = await posthorn(args, env);
      assert.equal(code, 78, notes);
      assert.match(notes, /^dataDir: expected a path of at most 93 bytes, [^\n]+$/);
    }
  });

  it('show names each setting, its value as one would write it, and where it came from', async () => {
    const file = path.join(folder, 'good.yaml');
    writeFileSync(file, 'delivery: { maxAge: 36h }\n');
    const { code, out } = await posthorn(['config', 'show', '--config', file], { POSTHORN_HTTP__PORT: '8000' });
    assert.equal(code, 0);
    assert.match(out, /^http\.port +8000 {2}\(POSTHORN_HTTP__PORT\)$/m);
    assert.match(out, new RegExp(`^delivery\\.maxAge +36h {2}\\(${file}\\)$`, 'm'));
    assert.match(out, /^storage\.minFreeBytes +512MiB {2}\(default\)$/m);
    assert.match(out, /^delivery\.retry\.schedule +\[1m, 5m, 15m, 30m, 1h, 2h, 4h\] {2}\(default\)$/m);
    assert.match(out, /^tls\.certFile +none {2}\(default\)$/m);
  });

  it('show --json is the settings as the program has them', async () => {
    const { out } = await posthorn(['config', 'show', '--json'], { POSTHORN_DELIVERY__MAX_AGE: '5m' });
    const { delivery } = JSON.parse(out) as { delivery: { maxAge: number } };
    assert.equal(delivery.maxAge, 300_000);
  });

  it('show hides passwords', async () => {
    const env = { POSTHORN_DELIVERY__ROUTES: '{"*":{"host":"r.test","port":587,"user":"u","password":"hunter2"}}' };
    for (const args of [
      ['config', 'show'],
      ['config', 'show', '--json'],
    ]) {
      const { out } = await posthorn(args, env);
      assert.match(out, /r\.test/);
      assert.doesNotMatch(out, /hunter2/);
    }
  });

  it('show hides a secret that is the whole value', async () => {
    const env = {
      POSTHORN_METRICS__TOKEN: 'hunter2-hunter2-hunter2',
      POSTHORN_BACKUP__PASSPHRASE: 'hunter2 and some more words',
    };
    const { out } = await posthorn(['config', 'show'], env);
    assert.match(out, /^metrics\.token +\(hidden\) {2}\(POSTHORN_METRICS__TOKEN\)$/m);
    assert.match(out, /^backup\.passphrase +\(hidden\)/m);
    assert.doesNotMatch(out, /hunter2/);
    const asJson = await posthorn(['config', 'show', '--json'], env);
    assert.doesNotMatch(asJson.out, /hunter2/);
    const { metrics } = JSON.parse(asJson.out) as { metrics: { token: string } };
    assert.equal(metrics.token, '(hidden)');
    assert.match((await posthorn(['config', 'show'])).out, /^backup\.passphrase +none {2}\(default\)$/m);
  });

  it('check reads the files that settings name, and tells the mistakes of all', async () => {
    const { code, notes } = await posthorn(['config', 'check'], {
      POSTHORN_TLS__CERT_FILE: path.join(folder, 'none.pem'),
      POSTHORN_TLS__KEY_FILE: path.join(folder, 'none.pem'),
      POSTHORN_DELIVERY__OPERATORS_FILE: path.join(folder, 'none.yaml'),
      POSTHORN_DELIVERY__BOUNCE_RULES: path.join(folder, 'none.yaml'),
      POSTHORN_TRACKING__SCANNERS_FILE: path.join(folder, 'none.yaml'),
      POSTHORN_STORAGE__PASSWORD_FILE: path.join(folder, 'none'),
      POSTHORN_STORAGE__URL: `postgres://me@db/mail?sslmode=verify-full&sslrootcert=${path.join(folder, 'none.pem')}`,
    });
    assert.equal(code, 78);
    assert.deepEqual(
      notes.split('\n').map((line) => line.split(':')[0]),
      [
        'storage.passwordFile',
        'storage.url (sslrootcert)',
        'tls.certFile',
        'delivery.bounceRules',
        'delivery.operatorsFile',
        'tracking.scannersFile',
      ],
    );
  });

  it('a command that needs the database ends with 78 where a file of its address is missing', async () => {
    const url = 'postgres://me@127.0.0.1:1/mail';
    const none = path.join(folder, 'none');
    for (const more of [
      { POSTHORN_STORAGE__URL: url, POSTHORN_STORAGE__PASSWORD_FILE: none },
      { POSTHORN_STORAGE__URL: `${url}?sslmode=verify-full&sslrootcert=${none}` },
    ]) {
      // The checkout's own folder may have a server that is running.
      const { code, notes } = await posthorn(['migrate'], { POSTHORN_DATA_DIR: folder, ...more });
      assert.equal(code, 78, notes);
      assert.match(notes, /^posthorn: storage\.\S+(?: \(sslrootcert\))?: expected a readable file: ENOENT[^\n]*$/);
    }
  });

  it('check --json tells mistakes and warnings as data', async () => {
    const good = await posthorn(['config', 'check', '--json'], {
      POSTHORN_HTTP__PROT: '1',
      POSTHORN_HTTP__PUBLIC_URL: 'https://mail.example.com',
    });
    const { valid, mistakes, warnings } = JSON.parse(good.out) as Record<string, unknown[]>;
    assert.deepEqual([good.code, valid, mistakes, warnings?.length], [0, true, [], 1]);
    const sources = '[{"name":"out1","ipv4":"192.0.2.77"}]';
    const odd = await posthorn(['config', 'check', '--json'], { POSTHORN_DELIVERY__SOURCES: sources });
    assert.match(
      odd.out,
      /"valid": true[^]*delivery\.sources: the address 192\.0\.2\.77 of out1 is not on this machine/,
    );
    const bad = await posthorn(['config', 'check', '--json'], { POSTHORN_HTTP__PORT: 'x' });
    assert.equal(bad.code, 78);
    assert.match(bad.out, /"valid": false[^]*http\.port/);
  });

  it('a wrong command or option is a usage error, help is none', async () => {
    assert.equal((await posthorn(['confog'])).code, 64);
    assert.equal((await posthorn(['config', 'check', '--nonsense'])).code, 64);
    const help = await posthorn(['config', '--help']);
    assert.equal(help.code, 0);
    assert.match(help.out, /check/);
  });
});

describe('posthorn migrate', () => {
  it('shows how far it is', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-cli-'));
    const seen: string[] = [];
    const nothing = (): void => undefined;
    const sinks = { out: nothing, note: nothing, status: (text: string) => void seen.push(text) };
    const code = await run(
      ['migrate'],
      { POSTHORN_SMTP__HOSTNAME: 'mail.example.com', POSTHORN_DATA_DIR: folder },
      sinks,
    );
    rmSync(folder, { recursive: true });
    assert.equal(code, 0);
    assert.match(seen[0] ?? '', /^migrating \[\.+\] 0 %$/);
    assert.equal(seen.at(-1), '', 'the line is cleared');
  });

  it('makes the database once, and then has nothing to do', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-cli-'));
    try {
      const first = await posthorn(['migrate', '--json'], { POSTHORN_DATA_DIR: folder });
      assert.deepEqual([first.code, first.notes], [0, '']);
      assert.deepEqual((JSON.parse(first.out) as { migrated: string[] }).migrated[0], '001-schema');
      const second = await posthorn(['migrate'], { POSTHORN_DATA_DIR: folder });
      assert.match(second.out, /up to date/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
