/** A certificate is installed while the server runs, as the deploy hook of an ACME client does it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import tls from 'node:tls';
import { newFolder, startTestApp, type TestApp } from '../support/harness/app.ts';
import { ran } from '../cli/ran.ts';

const fixtures = path.resolve(import.meta.dirname, '../fixtures/tls/chain');
const text = (name: string): string => readFileSync(path.join(fixtures, name), 'utf8');

/** Lays files out as certbot does: links in live/, which root alone may enter, to the files of each renewal. */
function certbotFolder(at: string): { cert: string; key: string; dir: string } {
  const dir = path.join(at, 'letsencrypt');
  for (const name of ['live', 'archive']) mkdirSync(path.join(dir, name, 'mail'), { recursive: true });
  writeFileSync(path.join(dir, 'archive/mail/fullchain1.pem'), text('leaf.pem') + text('issuer.pem'));
  writeFileSync(path.join(dir, 'archive/mail/privkey1.pem'), text('leaf.key'), { mode: 0o600 });
  for (const name of ['fullchain', 'privkey'])
    symlinkSync(`../../archive/mail/${name}1.pem`, path.join(dir, 'live/mail', `${name}.pem`));
  for (const name of ['live', 'archive']) chmodSync(path.join(dir, name), 0o700);
  return { cert: path.join(dir, 'live/mail/fullchain.pem'), key: path.join(dir, 'live/mail/privkey.pem'), dir };
}

const subjectAt = (port: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().subjectaltname ?? '');
      socket.destroy();
    });
    socket.once('error', reject);
  });

describe('journey: posthorn tls install', () => {
  let folder: string;
  let files: { cert: string; key: string; dir: string };
  beforeEach(() => {
    folder = newFolder();
    files = certbotFolder(folder);
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const env = (dataDir: string, more: Record<string, string> = {}): Record<string, string> => ({
    POSTHORN_DATA_DIR: dataDir,
    POSTHORN_SMTP__HOSTNAME: 'mail.posthorn.test',
    ...more,
  });
  const install = (dataDir: string, more: Record<string, string> = {}, ...args: string[]): ReturnType<typeof ran> =>
    ran(['tls', 'install', '--cert', files.cert, '--key', files.key, ...args], env(dataDir, more));

  describe('with a server', () => {
    let app: TestApp;
    beforeEach(async () => {
      app = await startTestApp({ settings: { metrics: { port: 0 } } });
    });
    afterEach(() => app.stop());

    it('has it used at once, and says so everywhere', async () => {
      const port = app.app.ports.submissions ?? 0;
      assert.equal(await subjectAt(port), 'DNS:mail.posthorn.test');
      const first = await install(app.folder, {}, '--json');
      assert.equal(first.code, 0, first.notes);
      const record = JSON.parse(first.out) as Record<string, unknown>;
      assert.deepEqual(
        [record['changed'], record['reloaded'], record['issuer'], record['key_type'], record['warnings']],
        [true, true, 'Posthorn Tests, Posthorn Test Issuer', 'ec', []],
      );
      assert.equal(await subjectAt(port), 'DNS:mail.example.com, DNS:*.posthorn.test');
      const file = path.join(app.folder, 'tls.pem');
      assert.equal(statSync(file).mode & 0o777, 0o600);

      const certificate = await app.operator.call('tls.reload', {});
      assert.deepEqual([certificate.file, certificate.self_signed, certificate.error], [file, false, null]);
      const url = String(app.logged.find(({ event }) => event === 'metrics')?.['url']);
      const [, seconds = ''] =
        /^posthorn_certificate_not_after_seconds (.*)$/m.exec(await (await fetch(url)).text()) ?? [];
      assert.equal(Number(seconds) * 1000, Date.parse(certificate.not_after));

      const again = await install(app.folder);
      assert.equal(again.code, 0);
      assert.match(again.out, /^nothing has changed: .*\n.*the running server uses it/);
      assert.equal(app.logged.filter(({ event }) => event === 'certificate_renewed').length, 1);
    });

    it('is found by itself within a minute, and a damaged file changes nothing', async () => {
      const port = app.app.ports.submissions ?? 0;
      const file = path.join(app.folder, 'tls.pem');
      writeFileSync(file, text('leaf.pem') + text('issuer.pem') + text('leaf.key'));
      app.clock.advance(60_000);
      assert.match(await subjectAt(port), /mail\.example\.com/);
      writeFileSync(file, text('leaf.pem'));
      app.clock.advance(120_000);
      assert.match(await subjectAt(port), /mail\.example\.com/);
      assert.equal(app.logged.filter(({ event }) => event === 'certificate_unusable').length, 1);
      const { error } = await app.operator.call('tls.reload', {});
      assert.match(error ?? '', /tls\.pem: expected a certificate and its key, as `posthorn tls install` writes them/);
    });
  });

  for (const [why, change, code, says] of [
    ['no such file', { cert: '/nowhere/fullchain.pem' }, 66, /there is no file \/nowhere\/fullchain\.pem/],
    ['a folder', { key: '/' }, 66, /\/ cannot be read: EISDIR/],
    ['the contents of the key', { key: text('leaf.key') }, 64, /wants the name of a file, not its contents/],
    ['the key of another', { key: path.join(fixtures, 'weak.key') }, 65, /does not belong/],
  ] as const) {
    it(`changes nothing with ${why}`, async () => {
      files = { ...files, ...change };
      const { code: found, notes, out: said } = await install(path.join(folder, 'data'));
      assert.equal(found, code, notes);
      assert.match(notes, says);
      assert.match(notes, /cure: /);
      assert.doesNotMatch(notes + said, /BEGIN|PRIVATE/);
    });
  }
  it('asks for the name of the server, unless told otherwise', async () => {
    const other = { POSTHORN_SMTP__HOSTNAME: 'mail.other.example' };
    const refused = await install(path.join(folder, 'data'), other);
    assert.equal(refused.code, 65);
    assert.match(refused.notes, /not for mail\.other\.example/);
    const taken = await install(path.join(folder, 'data'), other, '--any-name');
    assert.equal(taken.code, 0, taken.notes);
    assert.match(taken.out, /no server runs: the next start uses it/);
  });
  it('refuses where the settings name other files', async () => {
    const named = { POSTHORN_TLS__CERT_FILE: files.cert, POSTHORN_TLS__KEY_FILE: files.key };
    const { code, notes } = await install(path.join(folder, 'data'), named);
    assert.equal(code, 78);
    assert.match(notes, /Remove tls\.certFile and tls\.keyFile/);
  });
  it('does not quote a key that stands in the place of its file', async () => {
    const { code, notes } = await ran(
      ['config', 'check'],
      env(folder, { POSTHORN_TLS__CERT_FILE: files.cert, POSTHORN_TLS__KEY_FILE: text('leaf.key') }),
    );
    assert.equal(code, 78);
    assert.equal(
      notes.trim(),
      'tls.keyFile (POSTHORN_TLS__KEY_FILE): expected a file path, in which `~` has no meaning, found the contents of a PEM file',
    );
  });

  describe('as root, for the user of the service', () => {
    const NOBODY = 65_534;
    const program = `
      import { run } from ${JSON.stringify(pathToFileURL(path.resolve(import.meta.dirname, '../../src/cli/cli.ts')).href)};
      process.exitCode = await run(process.argv.slice(1));`;
    const posthorn = (uid: number, ...args: string[]): ReturnType<typeof spawnSync> =>
      spawnSync(process.execPath, ['--import=tsx', '--input-type=module', '-e', program, '--', ...args], {
        encoding: 'utf8',
        uid,
        gid: uid,
        env: { ...env(path.join(folder, 'data')), PATH: process.env['PATH'] },
      });
    before(function () {
      if (process.getuid?.() !== 0) this.skip('only root may become another user');
    });
    beforeEach(() => {
      chmodSync(folder, 0o755);
      mkdirSync(path.join(folder, 'data'), { mode: 0o750 });
      chownSync(path.join(folder, 'data'), NOBODY, NOBODY);
    });

    it('reads what root alone may read, and leaves a file of the service', () => {
      const done = posthorn(0, 'tls', 'install', '--cert', files.cert, '--key', files.key);
      assert.equal(done.status, 0, String(done.stderr));
      const { uid, gid, mode } = statSync(path.join(folder, 'data/tls.pem'));
      assert.deepEqual([uid, gid, mode & 0o777], [NOBODY, NOBODY, 0o600]);
    });
    it('says as the user of the service what is missing', () => {
      const done = posthorn(NOBODY, 'tls', 'install', '--cert', files.cert, '--key', files.key);
      assert.equal(done.status, 77, String(done.stderr));
      assert.match(String(done.stderr), /fullchain\.pem cannot be read: EACCES\n.*sudo posthorn tls install/);
    });
    it('says the same of a setting that names such a file', () => {
      const settings = path.join(folder, 'posthorn.yaml');
      writeFileSync(settings, `tls: { certFile: ${files.cert}, keyFile: ${files.key} }\n`);
      const done = posthorn(NOBODY, '--config', settings, 'config', 'check');
      assert.equal(done.status, 78);
      assert.match(
        String(done.stderr),
        /expected a readable file: EACCES \S+fullchain\.pem \(the service is not root; .* posthorn tls install/,
      );
    });
  });
});
