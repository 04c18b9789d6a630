import assert from 'node:assert/strict';
import { readSettings } from '../../src/config/load.ts';

const around = { cwd: '/srv', privileged: true, terminal: false, hostname: 'mail.example.com' };
const usual = {
  http: { host: '127.0.0.1', port: 8025 },
  dashboard: { port: 8025 },
  metrics: { host: '127.0.0.1' },
  smtp: { mx: { host: '0.0.0.0', port: 25 }, submission: { host: '127.0.0.1', port: 587, tlsPort: 465 } },
};

describe('config/port-clash', () => {
  for (const [why, settings, lines] of [
    ['the defaults', usual, []],
    [
      'free ports',
      { ...usual, smtp: { mx: { host: '::', port: 0 }, submission: { host: '::', port: 0, tlsPort: 0 } } },
      [],
    ],
    ['the same port of two addresses', { ...usual, metrics: { host: '127.0.0.2', port: 8025 } }, []],
    [
      'the port of the API on all addresses',
      { ...usual, smtp: { ...usual.smtp, mx: { host: '0.0.0.0', port: 8025 } } },
      ['smtp.mx.port: expected another port than http.port, found 8025 for both'],
    ],
    ...(['127.0.0.1', '::1'] as const).map(
      (host) =>
        [
          `a port of localhost, which is ${host}, too`,
          {
            ...usual,
            http: { host: 'localhost', port: 587 },
            smtp: { ...usual.smtp, submission: { host, port: 587, tlsPort: 465 } },
          },
          ['smtp.submission.port: expected another port than http.port, found 587 for both'],
        ] as const,
    ),
    [
      'one port for both kinds of submission',
      { ...usual, smtp: { ...usual.smtp, submission: { host: '127.0.0.1', port: 587, tlsPort: 587 } } },
      ['smtp.submission.tlsPort: expected another port than smtp.submission.port, found 587 for both'],
    ],
    [
      'a dashboard on the port of the metrics',
      { ...usual, dashboard: { port: 9125 }, metrics: { host: '127.0.0.1', port: 9125 } },
      ['metrics.port: expected another port than dashboard.port, found 9125 for both'],
    ],
  ] as const) {
    it(why, () => {
      const reading = readSettings(settings, around);
      assert.deepEqual(reading.kind === 'bad' ? reading.mistakes : [], lines);
    });
  }
  it('is a mistake of the settings', () => {
    const reading = readSettings({ http: { port: 25 } }, around);
    assert.deepEqual(reading.kind === 'bad' && reading.mistakes, [
      'smtp.mx.port: expected another port than http.port, found 25 for both',
    ]);
  });
});
