import assert from 'node:assert/strict';
import { listenFault } from '../../src/cli/serve.ts';
import { configFor } from '../support/harness/app.ts';

const config = {
  ...configFor('/tmp', 25),
  http: { ...configFor('/tmp', 25).http, host: '127.0.0.1', port: 8025 },
  dashboard: { ...configFor('/tmp', 25).dashboard, port: 8026 },
  metrics: { ...configFor('/tmp', 25).metrics, host: '127.0.0.2', port: 9125 },
  smtp: {
    ...configFor('/tmp', 25).smtp,
    mx: { ...configFor('/tmp', 25).smtp.mx, host: '192.0.2.1', port: 25 },
    submission: { ...configFor('/tmp', 25).smtp.submission, host: '::1', port: 587, tlsPort: 465 },
  },
};
const failed = (code: string, port?: number): Error =>
  Object.assign(new Error(`listen ${code}`), { code, ...(port === undefined ? {} : { port }) });

describe('cli/listen-fault', () => {
  for (const [code, port, exitCode, says] of [
    ['EADDRINUSE', undefined, 69, /^something listens on 127\.0\.0\.1:8025 already: change http\.port, or end it/],
    ['EADDRINUSE', 8025, 69, /127\.0\.0\.1:8025 already: change http\.port/],
    ['EADDRINUSE', 8026, 69, /127\.0\.0\.1:8026 already: change dashboard\.port/],
    ['EADDRINUSE', 9125, 69, /127\.0\.0\.2:9125 already: change metrics\.port/],
    ['EADDRINUSE', 25, 69, /192\.0\.2\.1:25 already: change smtp\.mx\.port, .* `ss -ltnp 'sport = :25'` shows/],
    ['EADDRINUSE', 587, 69, /::1:587 already: change smtp\.submission\.port/],
    ['EADDRINUSE', 465, 69, /::1:465 already: change smtp\.submission\.tlsPort/],
    ['EACCES', 25, 77, /^smtp\.mx\.port: this user may not listen on port 25: .*CAP_NET_BIND_SERVICE/],
    [
      'EADDRNOTAVAIL',
      25,
      69,
      /^smtp\.mx\.host: this machine has no address 192\.0\.2\.1; if it comes up later, a later/,
    ],
    ['EAFNOSUPPORT', 587, 78, /^smtp\.submission\.host: this machine has no address ::1$/],
  ] as const) {
    it(`says of ${code} on ${String(port)} which setting it is`, () => {
      const fault = listenFault(config, failed(code, port));
      assert.equal(fault?.exitCode, exitCode);
      assert.match(fault.message, says);
    });
  }

  it('says where two settings name the same port', () => {
    const same = { ...config, http: { ...config.http, port: 587 } };
    assert.match(
      listenFault(same, failed('EADDRINUSE', 587))?.message ?? '',
      /^http\.port and smtp\.submission\.port are both 587/,
    );
  });

  it('leaves other errors to others', () => {
    for (const error of [failed('ENOSPC'), new Error('listen'), 'EADDRINUSE', null])
      assert.equal(listenFault(config, error), null);
  });
});
