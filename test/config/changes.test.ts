import assert from 'node:assert/strict';
import { changesBetween } from '../../src/config/settings-state.ts';
import type { Config } from '../../src/config/schema.ts';
import { readSettings } from '../../src/config/load.ts';

describe('config/changes', () => {
  const read = (written: object): Config => {
    const reading = readSettings(written, {
      cwd: '/srv',
      privileged: false,
      terminal: false,
      hostname: 'mail.example.com',
    });
    assert.ok(reading.kind === 'ok', 'mistakes' in reading ? reading.mistakes.join() : '');
    return reading.config;
  };
  const rows: [before: object, after: object, applied: string[], needRestart: string[], why: string][] = [
    [{}, {}, [], [], 'nothing changed'],
    [{}, { log: { level: 'info' } }, [], [], 'a default written out is no change'],
    [{}, { log: { level: 'debug' } }, ['log.level'], [], 'the log level'],
    [{}, { delivery: { routes: { 'a.test': 'hold' } } }, ['delivery.routes'], [], 'a route'],
    [
      { delivery: { routes: { 'a.test': 'hold' } } },
      { delivery: { routes: { 'a.test': 'hold' } } },
      [],
      [],
      'equal routes are no change',
    ],
    [
      {},
      { delivery: { shaping: [{ name: 'own', match: { code: '421' }, count: 1, within: '1m', action: 'slow' }] } },
      ['delivery.shaping'],
      [],
      'shaping rules',
    ],
    [{}, { delivery: { limits: [{ name: 'own', perDay: 5 }] } }, ['delivery.limits'], [], 'rules for mail'],
    [{}, { plans: { small: { requestsPerMinute: 5 } } }, ['plans'], [], 'a plan'],
    [{}, { tls: { certFile: 'c.pem', keyFile: 'k.pem' } }, ['tls.certFile', 'tls.keyFile'], [], 'certificate files'],
    [{}, { dataDir: './other' }, [], ['backup.dir', 'dataDir', 'storage.url'], 'the folder, and what follows from it'],
    [
      {},
      { http: { port: 9000 }, log: { level: 'warn' } },
      ['log.level'],
      ['http.port', 'http.publicUrl', 'dashboard.port'],
      'some of both',
    ],
  ];
  for (const [before, after, applied, needRestart, why] of rows) {
    it(why, () => {
      const changes = changesBetween(read(before), read(after));
      assert.deepEqual([changes.applied, changes.needRestart.sort()], [applied, needRestart.sort()]);
    });
  }
});
