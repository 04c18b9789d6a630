/** The watch over the certificate in force. */
import assert from 'node:assert/strict';
import { certificateFacts } from '../../src/config/certificate-facts.ts';
import { watchCertificate } from '../../src/config/certificate-watch.ts';
import { createLog } from '../../src/base/log.ts';
import { MINUTE_MS } from '../../src/base/time.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { server } from '../support/harness/certificate.ts';

describe('the watch over the certificate', () => {
  it('logs once that the certificate has expired', () => {
    const clock = new FakeClock(certificateFacts(server.cert).notAfter - MINUTE_MS - 1);
    const lines: string[] = [];
    const log = createLog({ level: 'info', format: 'json', stream: { write: (line) => void lines.push(line) } });
    const watch = watchCertificate({ clock, log, present: { file: 'c.pem', certificate: server }, files: () => null });
    watch.start(() => undefined);
    clock.advance(MINUTE_MS);
    assert.equal(lines.length, 0);
    for (let minutes = 0; minutes < 3; minutes++) clock.advance(MINUTE_MS);
    watch.stop();
    assert.equal(lines.length, 1);
    assert.match(lines.join(''), /certificate_expired.*c\.pem/);
  });
});
