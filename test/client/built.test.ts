/** The package as its users get it: packed, installed offline into an empty project, loaded by plain Node.js and by a strict compiler. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { clientPackageFiles, clientPackageRoutes } from '../../src/api/client-package.ts';
import { startHarness } from '../api/harness.ts';

const root = path.resolve(import.meta.dirname, '../..');
const tsc = path.join(root, 'node_modules/typescript/bin/tsc');

const USE = `
const mail = new MailClient({ apiKey: 'k', baseUrl: 'http://127.0.0.1:1', maxRetries: 0 });
mail.messages.send({ to: 'ana@example.net' }).catch((error) => {
  console.log(error instanceof NetworkError, error.name, typeof verifyWebhook);
});
`;

/** Lines for the editor of a user: those that must be right, and under each \`@ts-expect-error\` one that must not. */
const TYPED = `
import { ApiError, MailClient, RateLimitError, verifyWebhook, type MailEvent, type Message, type Page } from 'posthorn-client';

const mail = new MailClient({ apiKey: 'k', baseUrl: 'http://a.test', timeoutMs: 1, maxRetries: 0, fetch, userAgent: 'x' });
export async function all(): Promise<unknown[]> {
  const sent: Message = await mail.messages.send({ from: 'a@b.c', to: 'd@e.f', subject: 's', html: 'h' }, { idempotencyKey: 'k' });
  const { data, response } = await mail.messages.send({ to: 'd@e.f', template_id: 't', variables: { a: 1 }, cc: undefined }).withResponse();
  const { headers, tries } = response;
  const page: Page<Message> = await mail.messages.list({ status: ['queued'], tag: ['a'], metadata: { a: 'b' }, opened: true });
  const batch = await mail.messages.sendBulk({ template_id: 't', recipients: [{ to: 'd@e.f', variables: {} }] });
  const code: string | undefined = batch.data[0]?.error?.code;
  for await (const event of mail.events.stream({ type: ['bounced'] })) kind(event);
  for await (const entry of mail.suppressions.each({ reason: 'complaint' })) entry.email.trim();
  const gone: undefined = await mail.keys.revoke('key_1');
  const event = await verifyWebhook(new Uint8Array(), new Headers(), 'whsec_x');
  // @ts-expect-error: \`to\` is one address
  await mail.messages.send({ to: ['d@e.f'] });
  // @ts-expect-error: it is called reply_to
  await mail.messages.send({ to: 'd@e.f', replyTo: 'a@b.c' });
  // @ts-expect-error: no such status
  await mail.messages.list({ status: ['opened'] });
  // @ts-expect-error: there is no such parameter
  await mail.messages.list({ colour: 'red' });
  // @ts-expect-error: an id is a text
  await mail.messages.get(7);
  // @ts-expect-error: a bulk send has recipients
  await mail.messages.sendBulk({ to: 'd@e.f' });
  return [sent.engagement.opens, data.id, headers, tries, page.next_cursor, code, gone, event];
}

function kind(event: MailEvent): string {
  switch (event.type) {
    case 'bounced':
      return event.data.bounced.class + event.data.recipient;
    case 'clicked':
      // @ts-expect-error: another kind's member
      return event.data.bounced.class + event.data.clicked.url;
    default:
      return event.type;
  }
}

export function told(error: unknown): unknown {
  if (error instanceof RateLimitError) return error.retryAfter;
  return error instanceof ApiError ? [error.code, error.status, error.field, error.requestId] : null;
}
`;

describe('client: the package', () => {
  let folder: string;
  let project: string;
  let tarball: string;

  const npm = (cwd: string, ...words: string[]): string => {
    const env = { ...process.env, NODE_OPTIONS: '', npm_config_cache: path.join(folder, 'cache') };
    const { status, stdout, stderr } = spawnSync('npm', words, { cwd, encoding: 'utf8', env });
    assert.equal(status, 0, stderr);
    return stdout;
  };
  /** As `npm run client:pack` does it, in a folder of its own; gives the last line. */
  const pack = (): string => {
    const out = mkdtempSync(path.join(folder, 'out-'));
    for (const [config, kind] of [
      ['tsconfig.json', 'esm'],
      ['tsconfig.cjs.json', 'cjs'],
    ] as const) {
      const words = [tsc, '-p', path.join(root, 'src/client', config), '--outDir', path.join(out, kind)];
      const built = spawnSync(process.execPath, words, { encoding: 'utf8' });
      assert.equal(built.status, 0, built.stdout);
    }
    const packed = spawnSync(process.execPath, [path.join(root, 'src/bin/pack-client.mjs'), out], { encoding: 'utf8' });
    assert.equal(packed.status, 0, packed.stderr);
    return packed.stdout.trim().split('\n').at(-1) ?? '';
  };

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'ph-client-'));
    tarball = pack();
  });
  // A hook of its own, since the compilers alone take minutes of a busy machine, and each hook has five.
  before(() => {
    project = path.join(folder, 'project');
    mkdirSync(project);
    writeFileSync(path.join(project, 'package.json'), '{"name":"shop","private":true}');
    npm(project, 'install', '--offline', '--no-audit', '--no-fund', tarball);
  });
  after(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  const home = (): string => path.join(project, 'node_modules/posthorn-client');

  const run = (file: string, program: string): string => {
    writeFileSync(path.join(project, file), program);
    const env = { ...process.env, NODE_OPTIONS: '' };
    const { status, stdout, stderr } = spawnSync(process.execPath, [file], { cwd: project, encoding: 'utf8', env });
    assert.equal(status, 0, stderr);
    return stdout.trim();
  };

  it('can be installed outside of a checkout, without a network, as one package', () => {
    const tree = JSON.parse(npm(project, 'ls', '--all', '--json')) as {
      dependencies: Record<string, { version: string; dependencies?: object }>;
    };
    assert.deepEqual(Object.keys(tree.dependencies), ['posthorn-client']);
    assert.equal(tree.dependencies['posthorn-client']?.dependencies, undefined);
    const files = readdirSync(home(), { recursive: true }).map(String);
    for (const file of [
      'README.md',
      'LICENSE',
      'package.json',
      'esm/index.js',
      'esm/index.d.ts',
      'cjs/index.js',
      'cjs/index.d.ts',
      'cjs/package.json',
    ])
      assert.ok(files.includes(file), file);
    assert.ok(files.length < 120, 'nothing but the client');
  });

  it('is the same bytes whenever it is packed, under the name that the server looks for', () => {
    const again = pack();
    assert.deepEqual(readFileSync(again), readFileSync(tarball));
    const { version, scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      version: string;
      scripts: Record<string, string>;
    };
    assert.ok(clientPackageFiles(version).every((file) => path.basename(file) === path.basename(tarball)));
    assert.match(scripts['client:pack'] ?? '', /node src\/bin\/pack-client\.mjs$/);
    assert.match(scripts['build'] ?? '', /build:client/);
  });

  it('is served by a running server, with a tag, without a key', async () => {
    const own = { version: '1.0.0', files: ['/nowhere', tarball], kept: path.join(project, 'clients') };
    const routes = clientPackageRoutes({ clientPackage: own });
    const h = await startHarness({ routes });
    const first = await h.send('GET', '/v1/client.tgz', { key: null });
    assert.deepEqual(
      [first.status, first.headers['content-type'], first.headers['cache-control']],
      [200, 'application/gzip', 'no-cache'],
    );
    assert.deepEqual(first.bytes, readFileSync(tarball));
    const again = await h.send('GET', '/v1/client.tgz', {
      key: null,
      headers: { 'if-none-match': String(first.headers.etag) },
    });
    assert.deepEqual([again.status, again.bytes.length], [304, 0]);
    assert.equal((await h.send('GET', '/v1/client-0.9.0.tgz', { key: null })).error.code, 'not_found');
    assert.deepEqual((await h.send('GET', '/v1/client-1.0.0.tgz', { key: null })).bytes, first.bytes);
    await h.stop();
    const later = await startHarness({
      routes: clientPackageRoutes({ clientPackage: { ...own, version: '1.1.0', files: ['/nowhere'] } }),
    });
    assert.equal((await later.send('GET', '/v1/client.tgz', { key: null })).error.code, 'not_found');
    assert.deepEqual((await later.send('GET', '/v1/client-1.0.0.tgz', { key: null })).bytes, first.bytes);
    await later.stop();
  });

  it('is imported', () => {
    const line = run('use.mjs', `import { MailClient, NetworkError, verifyWebhook } from 'posthorn-client';\n${USE}`);
    assert.equal(line, 'true NetworkError function');
  });

  it('is required', () => {
    const line = run(
      'use.cjs',
      `const { MailClient, NetworkError, verifyWebhook } = require('posthorn-client');\n${USE}`,
    );
    assert.equal(line, 'true NetworkError function');
  });

  it('does nothing when it is loaded, and needs no other package', () => {
    for (const out of ['esm', 'cjs']) {
      const there = path.join(home(), out);
      const text = run(
        `look-${out}.mjs`,
        `import { readdirSync, readFileSync } from 'node:fs'; for (const file of readdirSync(${JSON.stringify(there)})) if (file.endsWith('.js')) console.log(readFileSync(${JSON.stringify(there)} + '/' + file, 'utf8'));`,
      );
      const named = [...text.matchAll(/(?:from |require\(|import\()\s*["']([^"']+)["']/g)].map(([, name = '']) => name);
      assert.ok(named.length > 10);
      assert.deepEqual(
        named.filter((name) => !name.startsWith('./')),
        [],
      );
    }
  });

  const strict = {
    target: 'es2023',
    lib: ['es2023', 'dom', 'dom.iterable'],
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    skipLibCheck: false,
  };
  const ways: [name: string, options: object, files: string[]][] = [
    ['nodenext, as a module and as CommonJS', { module: 'nodenext' }, ['typed.mts', 'typed.cts']],
    ['bundler', { module: 'esnext', moduleResolution: 'bundler' }, ['typed.ts']],
    ['the classic node', { module: 'commonjs', moduleResolution: 'node10', ignoreDeprecations: '6.0' }, ['typed.ts']],
  ];
  for (const [name, options, files] of ways) {
    it(`has types that say what there is and what is not, under strict, by the resolution ${name}`, () => {
      for (const file of files) writeFileSync(path.join(project, file), TYPED);
      writeFileSync(
        path.join(project, 'tsconfig.json'),
        JSON.stringify({ compilerOptions: { ...strict, ...options }, files }),
      );
      const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', project], { encoding: 'utf8' });
      assert.equal(status, 0, stdout);
    });
  }
});
