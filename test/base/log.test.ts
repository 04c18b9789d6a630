import assert from 'node:assert/strict';
import os from 'node:os';
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { closeSync, fstatSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import path from 'node:path';
import { isJournal, createLog, type LogOptions } from '../../src/base/log.ts';

const logTo = (lines: string[], options: Partial<LogOptions> = {}) =>
  createLog({ level: 'info', format: 'json', stream: { write: (line) => lines.push(line) }, ...options });

describe('log', () => {
  it('writes one JSON line a fact: level by name, time in UTC, fields, message', () => {
    const lines: string[] = [];
    logTo(lines).info({ event: 'delivered', message_id: 'msg_1', code: 250 }, 'delivered');
    const [line = ''] = lines;
    const { time, ...rest } = JSON.parse(line) as Record<string, unknown>;
    assert.deepEqual(rest, { level: 'info', event: 'delivered', message_id: 'msg_1', code: 250, message: 'delivered' });
    assert.match(String(time), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    assert.ok(line.endsWith('}\n'));
  });

  it('gives the fields of a child to each of its lines', () => {
    const lines: string[] = [];
    logTo(lines).child({ lane: 'mx.test' }).child({ request_id: 'req_1' }).warn({ lane_size: 2 }, 'slow');
    assert.deepEqual(Object.keys(JSON.parse(lines[0] ?? '') as object), [
      'level',
      'time',
      'lane',
      'request_id',
      'lane_size',
      'message',
    ]);
  });

  it('leaves out what is under its level, which can be changed', () => {
    const lines: string[] = [];
    const log = logTo(lines, { level: 'warn' });
    log.info({}, 'not this');
    log.level = 'debug';
    log.debug({}, 'this');
    assert.deepEqual(
      lines.map((line) => (JSON.parse(line) as { message: string }).message),
      ['this'],
    );
  });

  it('hides fields that are named like secrets', () => {
    const lines: string[] = [];
    const secrets = {
      password: 'hunter2',
      secret: 'hunter2',
      token: 'hunter2',
      authorization: 'hunter2',
      apiKey: 'hunter2',
      privateKey: 'hunter2',
    };
    logTo(lines)
      .child({ token: 'hunter2' })
      .info({ ...secrets, user: 'u' }, 'signed in');
    assert.doesNotMatch(lines.join(), /hunter2/);
    assert.match(lines.join(), /"user":"u"/);
  });

  it('writes an error with its stack and its causes, and a line break in a value as one line', () => {
    const lines: string[] = [];
    logTo(lines).error({ err: new Error('outer', { cause: new Error('inner') }), reply: 'a\nb' }, 'failed');
    assert.equal(lines.join('').trimEnd().split('\n').length, 1);
    const { err } = JSON.parse(lines[0] ?? '') as {
      err: { message: string; stack: string; cause: { message: string } };
    };
    assert.equal(err.message, 'outer');
    assert.match(err.stack, /log\.test/);
    assert.equal(err.cause.message, 'inner');
  });

  it('writes hashes in the place of addresses where it is told to', () => {
    const lines: string[] = [];
    const hash = createHash('sha256').update('ana@example.net').digest('hex').slice(0, 16);
    const cause = new Error('no Ana@Example.net here');
    logTo(lines, { addresses: 'hashed' }).warn(
      {
        text: '5.1.1 <ana@example.net>: no such user; RCPT TO:<Ana@example.net>',
        to: ['mailto:ana@example.net'],
        timings: { dot: 3 },
        err: new Error('refused ana@example.net', { cause }),
        send: 'curl hello@simulator.posthorn.test',
      },
      'refused',
    );
    assert.doesNotMatch(lines.join(), /ana@/i);
    const line = JSON.parse(lines[0] ?? '') as Record<string, unknown>;
    assert.equal(line['text'], `5.1.1 <#${hash}@example.net>: no such user; RCPT TO:<#${hash}@example.net>`);
    assert.deepEqual([line['to'], line['timings']], [[`mailto:#${hash}@example.net`], { dot: 3 }]);
    assert.equal(line['send'], 'curl hello@simulator.posthorn.test');
    assert.match(JSON.stringify(line['err']), new RegExp(`"cause":.*#${hash}@Example\\.net`));
  });

  it('can be read by people', () => {
    const lines: string[] = [];
    logTo(lines, { format: 'pretty' }).info({ lane: 'mx.test' }, 'slow');
    assert.ok(!lines.join('').includes('\u001b'), 'no colours where it is no terminal');
    assert.match(lines.join(''), /INFO.*slow[\s\S]*lane.*mx\.test/);
  });

  for (const format of ['json', 'pretty'] as const) {
    it(`lets the program go on and end where its disk is full (${format})`, () => {
      const full = openSync('/dev/full', 'w');
      const { status, stderr } = spawnSync(process.execPath, ['--import', 'tsx', '--eval', LOGGING, format], {
        cwd: path.resolve(import.meta.dirname, '../..'),
        stdio: ['ignore', full, 'pipe'],
        encoding: 'utf8',
        // One thread writes to files, so what is asked of it after a write is answered after that.
        env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
        // A program that waits for its disk would wait for ever, and mocha cannot end a test that waits for a child.
        timeout: 240_000,
      });
      closeSync(full);
      assert.equal(status, 7, stderr);
    });
  }
});

/** Logs, waits until that has failed, logs again, and ends with 7. */
const LOGGING = `
  import('./src/base/log.ts').then(({ createLog }) => {
    const log = createLog({ level: 'info', format: process.argv[1] });
    log.info({ event: 'one' }, 'lost');
    require('node:fs').stat('.', () => {
      log.info({ event: 'two' }, 'lost');
      log.flush();
      process.exit(7);
    });
  });
`;

describe('log to the journal', () => {
  it('gives each line its priority, which the journal removes', () => {
    const lines: string[] = [];
    const log = createLog({
      level: 'debug',
      format: 'json',
      journal: true,
      stream: { write: (line) => lines.push(line) },
    });
    log.error({ event: 'a' }, 'x');
    log.warn({ event: 'b' }, 'x');
    log.info({ event: 'c', text: '{"level":"error"' }, 'x');
    log.debug({ event: 'd' }, 'x');
    log.child({ lane: 'x' }).error({ event: 'e' }, 'x');
    assert.deepEqual(
      lines.map((line) => line.slice(0, 3)),
      ['<3>', '<4>', '<6>', '<7>', '<3>'],
    );
    for (const line of lines) assert.doesNotThrow(() => JSON.parse(line.slice(3)) as unknown);
    log.flush();
  });
  it('knows the journal by the file that systemd names', () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-journal-'));
    const file = openSync(path.join(folder, 'stream'), 'w');
    try {
      const { dev, ino } = fstatSync(file, { bigint: true });
      assert.equal(isJournal(`${String(dev)}:${String(ino)}`, file), true);
      assert.equal(isJournal(`${String(dev)}:1`, file), false);
      assert.equal(isJournal(undefined, file), false);
      assert.equal(isJournal('1:1', 999_999), false);
    } finally {
      closeSync(file);
      rmSync(folder, { recursive: true });
    }
  });
});
