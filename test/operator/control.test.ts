import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
  readdirSync,
  readlinkSync,
} from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Problem } from '../../src/base/problem.ts';
import { callServer } from '../../src/operator/door/client.ts';
import { reachOperator } from '../../src/operator/door/operator.ts';
import type { Control } from '../../src/operator/door/control.ts';
import { lookAtSocket, socketPath } from '../../src/operator/door/socket.ts';
import { createApi, type ApiDeps } from '../../src/api/server.ts';
import { serverRoutes } from '../../src/operator/routes.ts';
import { Unavailable, type UnavailableWhy } from '../../src/base/unavailable.ts';
import { configOf, Office } from './office.ts';

const unavailable =
  (why: UnavailableWhy) =>
  (error: unknown): boolean =>
    error instanceof Unavailable && error.why === why;

const post = (to: string, headers: Record<string, string> = {}) => ({
  method: 'POST',
  path: to,
  headers: { 'content-type': 'application/json', ...headers },
});

/** One raw request; the answer's status and body. */
function ask(
  socket: string,
  options: http.RequestOptions,
  body?: string | Buffer,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath: socket, agent: false, ...options }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

describe('operator/control', () => {
  let office: Office;
  let control: Control;
  beforeEach(async () => {
    office = await Office.open();
    control = await office.serve();
  });
  afterEach(async () => {
    await control.close();
    await office.close();
  });

  it('says that a command may be done in part where the server ends before it answers', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-control-'));
    const file = socketPath(folder);
    const server = net.createServer((socket) => socket.once('data', () => socket.destroy()));
    await new Promise<void>((resolve) => server.listen(file, resolve));
    await assert.rejects(
      callServer(file, 'queue.flush', { body: { all: true } }),
      (error: unknown) => unavailable('not_running')(error) && String(error).includes('may be done in part'),
    );
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
  });

  it('is open to its owner only, and gone when it is closed', async () => {
    assert.equal(control.path, path.join(office.folder, 'posthorn.sock'));
    assert.equal(statSync(control.path).mode & 0o777, 0o600);
    assert.equal(await lookAtSocket(control.path), 'live');
    await control.close();
    assert.equal(existsSync(control.path), false);
    assert.equal(await lookAtSocket(control.path), 'none');
  });

  it('lets no other user in', async function () {
    if (process.getuid?.() !== 0) this.skip('root only');
    chmodSync(office.folder, 0o755);
    const dial = `require('node:net').connect(${JSON.stringify(control.path)}).on('connect', () => process.exit(0)).on('error', ({ code }) => { console.log(code); process.exit(1); })`;
    const asNobody = { uid: 65534, gid: 65534, cwd: '/', env: { PATH: process.env['PATH'], NODE_OPTIONS: '' } };
    assert.equal(spawnSync(process.execPath, ['-e', dial], asNobody).stdout.toString().trim(), 'EACCES');
  });

  it('is the only server of the operations of the server', () => {
    const unused = {} as unknown as ApiDeps;
    assert.throws(() => createApi(unused, serverRoutes(office.deps)), /no port serves the operations of the server/);
  });

  it('performs operations and answers with their result', async () => {
    const { status, text } = await ask(control.path, post('/v1/server/accounts/add'), '{"name":"Acme"}');
    assert.equal(status, 200);
    assert.equal((JSON.parse(text) as { name: string }).name, 'Acme');
    assert.equal((await office.run('accounts.list', {})).data.length, 2);
  });

  it('performs the operations of the API, in the account that is named', async () => {
    await office.run('accounts.add', { name: 'Äcme' });
    const key = JSON.stringify({ name: 'k', scopes: ['send'] });
    const named = post('/v1/keys', { 'posthorn-account': encodeURIComponent('Äcme'), 'posthorn-user': 'lea' });
    assert.equal((await ask(control.path, named, key)).status, 201);
    const listed = async (headers: Record<string, string>): Promise<unknown[]> =>
      (JSON.parse((await ask(control.path, { path: '/v1/keys', headers })).text) as { data: unknown[] }).data;
    assert.equal((await listed({ 'posthorn-account': encodeURIComponent('Äcme') })).length, 1);
    assert.equal((await listed({})).length, 0);
    const line = (await office.audit()).find(({ operation }) => operation === 'createKey');
    assert.deepEqual([line?.actor, line?.method, line?.user_agent], ['operator', 'CLI', 'cli:lea']);
  });

  it('answers a list as lines', async () => {
    await office.ask('createSuppression', { body: { email: 'a@dest.test' } });
    const { status, text } = await ask(control.path, { path: '/v1/suppressions', headers: { accept: 'text/csv' } });
    assert.equal(status, 200);
    assert.match(text, /^email,reason,[^]*\na@dest\.test,manual,/);
  });

  for (const [options, body, status, code, reason] of [
    [post('/v1/server/accounts/plan'), '{"account":"x","plan":"pro"}', 404, 'not_found', 'a mistake of the operator'],
    [post('/v1/server/nothing'), '{}', 404, 'not_found', 'no such operation'],
    [post('/accounts.list'), '{}', 404, 'not_found', 'the form of an earlier version'],
    [{ method: 'GET', path: '/v1/server/accounts/list' }, undefined, 405, 'method_not_allowed', 'only POST'],
    [post('/v1/server/accounts/list'), '{', 400, 'invalid_json', 'half an object'],
    [post('/v1/server/accounts/list'), '[1]', 400, 'invalid_json', 'a list'],
    [post('/v1/keys', { 'posthorn-account': 'nobody' }), '{}', 404, 'not_found', 'no such account'],
    [post('/v1/server/accounts/list'), Buffer.alloc(60 * 2 ** 20, ' '), 413, 'payload_too_large', 'without end'],
  ] as const) {
    it(`answers ${code} to ${options.method} ${options.path.slice(0, 30)}: ${reason}`, async () => {
      const answer = await ask(control.path, options, body);
      assert.equal(answer.status, status, answer.text);
      const { error } = JSON.parse(answer.text) as { error: { code: string } };
      assert.equal(error.code, code);
    });
  }

  for (const [text, code, says] of [
    ['SQLITE_FULL: database or disk is full', 'service_unavailable', /^the disk of .* is full/],
    [
      'SELECT 1 - SQLITE_CORRUPT: malformed',
      'internal_error',
      /^the database of .* is damaged: .*restore the last backup/,
    ],
  ] as const)
    it(`tells ${text} from a fault of its own`, async () => {
      const error = Object.assign(new Error(text), { code: /SQLITE_\w+/.exec(text)?.[0] });
      const mta = {
        ...office.deps.mta,
        reports: {
          ...office.deps.mta.reports,
          lanes: () => {
            throw error;
          },
        },
      };
      await control.close();
      control = await office.serve(office.folder, { mta });
      await assert.rejects(
        callServer(control.path, 'queue.lanes', {}),
        (problem: unknown) => problem instanceof Problem && problem.code === code && says.test(problem.message),
      );
      assert.deepEqual(
        office.logged.map(({ event }) => event),
        ['operation_failed'],
      );
    });

  it('tells a fault of its own, logs it, and goes on', async () => {
    const mta = {
      ...office.deps.mta,
      reports: {
        ...office.deps.mta.reports,
        lanes: () => {
          throw new Error('lanes are broken');
        },
      },
    };
    await control.close();
    control = await office.serve(office.folder, { mta });
    await assert.rejects(
      callServer(control.path, 'queue.lanes', {}),
      (error: unknown) =>
        error instanceof Problem && error.code === 'internal_error' && error.message === 'lanes are broken',
    );
    assert.deepEqual(
      office.logged.map(({ event, operation }) => [event, operation]),
      [['operation_failed', 'queue.lanes']],
    );
    assert.notEqual(await callServer(control.path, 'accounts.list', {}), null);
  });

  it('brings the problem to the caller as it was', async () => {
    const asked = { body: { name: 'k', scopes: ['sned'] } };
    await assert.rejects(callServer(control.path, 'createKey', asked), (error: unknown) => {
      assert.ok(error instanceof Problem);
      assert.deepEqual(
        [error.code, error.field, error.message.slice(0, 39)],
        ['invalid_field', 'scopes[0]', '`scopes[0]` must be one of `send`, `cam'],
      );
      return true;
    });
  });

  it('says that a server of another version cannot be understood', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-control-'));
    const file = socketPath(folder);
    const server = http.createServer((_, response) => {
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end('{"problem":{"code":"not_found","message":"no such operation","field":null}}');
    });
    await new Promise<void>((resolve) => server.listen(file, resolve));
    await assert.rejects(callServer(file, 'accounts.list', {}), /is it of another version\?/);
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
  });

  it('will not start beside another server on the same folder', async () => {
    await assert.rejects(office.serve(), unavailable('already_running'));
    assert.equal(await lookAtSocket(control.path), 'live');
  });

  it('ends although a caller holds its connection open', async () => {
    const idle = net.connect(control.path);
    await new Promise((resolve) => idle.once('connect', resolve));
    idle.write('POST /v1/server/accounts/list HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n');
    const gone = new Promise((resolve) => idle.once('close', resolve));
    idle.on('error', () => undefined);
    const closed = control.close();
    office.clock.advance(5000);
    await Promise.all([closed, gone]);
  });
});

describe('operator/control: without a control socket', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-control-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('replaces what a dead server left', async () => {
    const file = socketPath(folder);
    const dying = `require('node:net').createServer().listen(${JSON.stringify(file)}, () => process.kill(process.pid, 'SIGKILL'))`;
    spawnSync(process.execPath, ['-e', dying], { env: { ...process.env, NODE_OPTIONS: '' } });
    assert.equal(await lookAtSocket(file), 'stale');
    const office = await Office.open();
    const control = await office.serve(folder);
    assert.equal(await lookAtSocket(file), 'live');
    await control.close();
    await office.close();
  });

  it('refuses a folder whose socket would have too long a name', () => {
    assert.throws(() => socketPath(path.join(folder, 'x'.repeat(100))), /dataDir: expected a path of at most 93 bytes/);
  });

  it('works on the database, and says when the server is needed', async () => {
    const operator = reachOperator(configOf(folder));
    const { data } = await operator.call('accounts.list', {}).catch((error: unknown) => {
      assert.ok(unavailable('no_database')(error));
      return { data: [] };
    });
    assert.deepEqual(data, []);
    assert.equal(existsSync(path.join(folder, 'posthorn.db')), false, 'a question makes no database');
    await assert.rejects(operator.call('queue.lanes', {}), unavailable('not_running'));
    const { name } = await operator.call('accounts.add', { name: 'Acme' });
    assert.equal(name, 'Acme');
    assert.equal((await operator.call('accounts.list', {})).data.length, 2);
    await assert.rejects(operator.call('queue.flush', { all: true }), unavailable('not_running'));
    await operator.close();
  });

  it('opens the database once for calls at the same time, so that the program can end', async function () {
    if (!existsSync('/proc/self/fd')) this.skip('there is no /proc');
    const first = reachOperator(configOf(folder));
    await first.call('accounts.add', { name: 'Acme' });
    await first.close();
    const isOpen = (): number =>
      readdirSync('/proc/self/fd').filter((fd) => {
        const file = `/proc/self/fd/${fd}`;
        return existsSync(file) && readlinkSync(file) === path.join(folder, 'posthorn.db');
      }).length;
    const before = isOpen();
    const operator = reachOperator(configOf(folder));
    await Promise.all([operator.call('reputation', {}), operator.call('stats', {})]);
    assert.ok(isOpen() > before);
    await operator.close();
    assert.equal(isOpen(), before);
  });

  it('does not turn to the database when its server goes away', async () => {
    const office = await Office.open();
    const control = await office.serve(folder);
    const operator = reachOperator(configOf(folder));
    await operator.call('accounts.list', {});
    await control.close();
    await assert.rejects(operator.call('accounts.list', {}), unavailable('not_running'));
    await operator.close();
    await office.close();
  });

  it("keeps root from making files beside another user's", async function () {
    if (process.getuid?.() !== 0) this.skip('root only');
    mkdirSync(folder, { recursive: true });
    const file = path.join(folder, 'posthorn.db');
    writeFileSync(file, '');
    const { chownSync } = await import('node:fs');
    chownSync(file, 65534, 65534);
    await assert.rejects(reachOperator(configOf(folder)).call('accounts.list', {}), unavailable('no_access'));
  });
});
