import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
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
import { callServer } from '../../src/operator/control-client.ts';
import { serveControl, type Control } from '../../src/operator/control-server.ts';
import { LARGEST_COMMAND_BYTES, lookAtSocket, socketPath } from '../../src/operator/control-socket.ts';
import { reachOperator } from '../../src/operator/operator.ts';
import { Unavailable, type UnavailableWhy } from '../../src/operator/unavailable.ts';
import { configOf, Office } from './office.ts';

const unavailable =
  (why: UnavailableWhy) =>
  (error: unknown): boolean =>
    error instanceof Unavailable && error.why === why;

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

describe('operator/control-server', () => {
  let office: Office;
  let control: Control;
  beforeEach(async () => {
    office = await Office.open();
    control = await serveControl(office.deps, office.folder);
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
      callServer(file, 'queue.flush', { all: true }),
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

  it('performs operations and answers with their result', async () => {
    const { status, text } = await ask(control.path, { method: 'POST', path: '/accounts.add' }, '{"name":"Acme"}');
    assert.equal(status, 200);
    const { result } = JSON.parse(text) as { result: { name: string } };
    assert.equal(result.name, 'Acme');
    assert.equal((await office.run('accounts.list', {})).data.length, 2);
  });

  for (const [options, body, status, code, reason] of [
    [
      { method: 'POST', path: '/accounts.plan' },
      '{"account":"x","plan":"pro"}',
      404,
      'not_found',
      'a mistake of the operator',
    ],
    [{ method: 'POST', path: '/nothing' }, '{}', 404, 'not_found', 'no such operation'],
    [{ method: 'POST', path: '/../keys.list' }, '{}', 404, 'not_found', 'no name of an operation'],
    [{ method: 'POST', path: `/${'a'.repeat(5000)}` }, '{}', 404, 'not_found', 'a name without end'],
    [{ method: 'GET', path: '/accounts.list' }, undefined, 405, 'method_not_allowed', 'only POST'],
    [{ method: 'POST', path: '/accounts.list' }, '{', 400, 'invalid_json', 'half an object'],
    [{ method: 'POST', path: '/accounts.list' }, undefined, 400, 'invalid_json', 'no body'],
    [{ method: 'POST', path: '/accounts.list' }, 'null', 400, 'missing_field', 'null'],
    [{ method: 'POST', path: '/accounts.list' }, '[1]', 400, 'invalid_type', 'a list'],
    [
      { method: 'POST', path: '/accounts.list' },
      Buffer.alloc(33 * 2 ** 20, ' '),
      413,
      'payload_too_large',
      'without end',
    ],
  ] as const) {
    it(`answers ${code} to ${options.method} ${options.path.slice(0, 20)}: ${reason}`, async () => {
      const answer = await ask(control.path, options, body);
      assert.equal(answer.status, status);
      const { problem } = JSON.parse(answer.text) as {
        problem: { code: string; message: string; field: string | null };
      };
      assert.equal(problem.code, code);
      assert.deepEqual(Object.keys(problem), ['code', 'message', 'field']);
    });
  }

  for (const [text, code, says] of [
    ['SQLITE_FULL: database or disk is full', 'service_unavailable', /disk is full/],
    ['SELECT 1 - SQLITE_CORRUPT: malformed', 'internal_error', /^the database is damaged .*`posthorn backup restore`/],
  ] as const)
    it(`tells ${text} from a fault of its own`, async () => {
      const error = Object.assign(new Error(text), { code: /SQLITE_\w+/.exec(text)?.[0] });
      const mta = {
        ...office.deps.mta,
        lanes: () => {
          throw error;
        },
      };
      await control.close();
      control = await serveControl({ ...office.deps, mta }, office.folder);
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
      lanes: () => {
        throw new Error('lanes are broken');
      },
    };
    await control.close();
    control = await serveControl({ ...office.deps, mta }, office.folder);
    await assert.rejects(
      callServer(control.path, 'queue.lanes', {}),
      (error: unknown) =>
        error instanceof Problem && error.code === 'internal_error' && error.message === 'lanes are broken',
    );
    assert.deepEqual(
      office.logged.map(({ event, operation }) => [event, operation]),
      [['operation_failed', 'queue.lanes']],
    );
    assert.equal((await callServer(control.path, 'accounts.list', {})).kind, 'result');
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

  it('refuses a command that is too large before it is sent, and lets one go that just fits', async () => {
    const refused = (code: string) => (error: unknown) => error instanceof Problem && error.code === code;
    const ofBytes = (bytes: number) => 'x'.repeat(bytes - 2);
    await assert.rejects(
      callServer(control.path, 'createKey', ofBytes(LARGEST_COMMAND_BYTES + 1)),
      refused('payload_too_large'),
    );
    await assert.rejects(
      callServer(control.path, 'createKey', ofBytes(LARGEST_COMMAND_BYTES)),
      refused('invalid_type'),
    );
  });

  it('will not start beside another server on the same folder', async () => {
    await assert.rejects(serveControl(office.deps, office.folder), unavailable('already_running'));
    assert.equal(await lookAtSocket(control.path), 'live');
  });

  it('ends although a caller holds its connection open', async () => {
    const idle = net.connect(control.path);
    await new Promise((resolve) => idle.once('connect', resolve));
    idle.write('POST /accounts.list HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n');
    const gone = new Promise((resolve) => idle.once('close', resolve));
    idle.on('error', () => undefined);
    const closed = control.close();
    office.clock.advance(5000);
    await Promise.all([closed, gone]);
  });
});

describe('operator/control-server: without a control socket', () => {
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
    const control = await serveControl(office.deps, folder);
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
    await Promise.all([operator.call('reputation', {}), operator.call('reputation.moments', {})]);
    assert.ok(isOpen() > before);
    await operator.close();
    assert.equal(isOpen(), before);
  });

  it('does not turn to the database when its server goes away', async () => {
    const office = await Office.open();
    const control = await serveControl(office.deps, folder);
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
