/** The package as its users get it: both builds loaded by plain Node.js, and the types of both read by a strict compiler. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
const tsc = path.join(root, 'node_modules/typescript/bin/tsc');

interface Manifest {
  exports: Record<string, Record<'import' | 'require', Record<'types' | 'default', string>>>;
  scripts: Record<string, string>;
}

const USE = `
const mail = new MailClient({ apiKey: 'k', baseUrl: 'http://127.0.0.1:1', maxRetries: 0 });
mail.messages.send({ to: 'ana@example.net' }).catch((error) => {
  console.log(error instanceof NetworkError, error.name, typeof verifyWebhook);
});
`;

/** What a user's editor must know: lines that must be right, and under each \`@ts-expect-error\` one that must not. */
const TYPED = `
import { ApiError, MailClient, RateLimitError, verifyWebhook, type MailEvent, type Message, type Page } from 'posthorn/client';

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

describe('client: the built package', function () {
  this.timeout(120_000);
  const { exports, scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as Manifest;
  let folder: string;

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'ph-client-'));
    const home = path.join(folder, 'node_modules/posthorn');
    mkdirSync(home, { recursive: true });
    writeFileSync(path.join(home, 'package.json'), JSON.stringify({ name: 'posthorn', type: 'module', exports }));
    for (const [config, out, type] of [['tsconfig.json', 'esm', 'module'], ['tsconfig.cjs.json', 'cjs', 'commonjs']] as const) {
      const outDir = path.join(home, 'dist/client', out);
      const built = spawnSync(process.execPath, [tsc, '-p', path.join(root, 'src/client', config), '--outDir', outDir], { encoding: 'utf8' });
      assert.equal(built.status, 0, built.stdout);
      writeFileSync(path.join(outDir, 'package.json'), JSON.stringify({ type, sideEffects: false }));
    } // prettier-ignore
  });
  after(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  const run = (file: string, program: string): string => {
    writeFileSync(path.join(folder, file), program);
    const env = { ...process.env, NODE_OPTIONS: '' };
    const { status, stdout, stderr } = spawnSync(process.execPath, [file], { cwd: folder, encoding: 'utf8', env });
    assert.equal(status, 0, stderr);
    return stdout.trim();
  };

  it('is what `npm run build` makes', () => {
    const { build = '', 'build:client': client = '' } = scripts;
    assert.match(build, /build:client/);
    for (const part of ['tsc -p src/client ', 'tsconfig.cjs.json', '"type":"module","sideEffects":false', '"type":"commonjs","sideEffects":false']) assert.ok(client.includes(part), part); // prettier-ignore
  });

  it('is imported', () => {
    const line = run('use.mjs', `import { MailClient, NetworkError, verifyWebhook } from 'posthorn/client';\n${USE}`);
    assert.equal(line, 'true NetworkError function');
  });

  it('is required', () => {
    const line = run('use.cjs', `const { MailClient, NetworkError, verifyWebhook } = require('posthorn/client');\n${USE}`); // prettier-ignore
    assert.equal(line, 'true NetworkError function');
  });

  it('does nothing when it is loaded, and needs no other package', () => {
    for (const out of ['esm', 'cjs']) {
      const home = path.join(folder, 'node_modules/posthorn/dist/client', out);
      const text = run(`look-${out}.mjs`, `import { readdirSync, readFileSync } from 'node:fs'; for (const file of readdirSync(${JSON.stringify(home)})) if (file.endsWith('.js')) console.log(readFileSync(${JSON.stringify(home)} + '/' + file, 'utf8'));`); // prettier-ignore
      const named = [...text.matchAll(/(?:from |require\(|import\()\s*["']([^"']+)["']/g)].map(([, name = '']) => name);
      assert.ok(named.length > 10);
      assert.deepEqual(named.filter((name) => !name.startsWith('./')), []); // prettier-ignore
    }
  });

  it('has types that say what there is and what is not, as a module and as CommonJS', () => {
    const files = ['typed.mts', 'typed.cts'];
    for (const file of files) writeFileSync(path.join(folder, file), TYPED);
    const compilerOptions = { module: 'nodenext', target: 'es2023', lib: ['es2023', 'dom', 'dom.iterable'], types: [], strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noEmit: true, skipLibCheck: false }; // prettier-ignore
    writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
    assert.equal(status, 0, stdout);
  });
});
