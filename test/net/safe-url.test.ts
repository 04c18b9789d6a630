import assert from 'node:assert/strict';
import fc from 'fast-check';
import { LONGEST_URL, readSafeUrl } from '../../src/net/safe-url.ts';

describe('base/safe-url', () => {
  for (const [text, host, port, reason] of [
    ['https://hooks.acme.test', 'hooks.acme.test', 443, 'the ordinary case'],
    ['https://HOOKS.acme.test:443/a?b=c', 'hooks.acme.test', 443, 'the usual port, written'],
    ['https://hooks.acme.test:8443/', 'hooks.acme.test', 8443, 'a high port'],
    ['https://hooks.acme.test:1024/', 'hooks.acme.test', 1024, 'the first high port'],
    ['https://hooks.acme.test:65535/', 'hooks.acme.test', 65_535, 'the last port'],
    ['https://bücher.test/', 'xn--bcher-kva.test', 443, 'a name that is not ASCII'],
    ['https://[2001:DB8::1]/', '2001:db8::1', 443, 'an address in brackets'],
    ['https://2130706433/', '127.0.0.1', 443, 'an address as one number'],
    ['https://0x7f000001/', '127.0.0.1', 443, 'in hex'],
    ['https://0x7f.0x0.0x0.0x1/', '127.0.0.1', 443, 'in hex, by part'],
    ['https://0177.0.0.01/', '127.0.0.1', 443, 'in octal'],
    ['https://017700000001/', '127.0.0.1', 443, 'in octal, as one number'],
    ['https://127.1/', '127.0.0.1', 443, 'shortened'],
    ['https://①②⑦.0.0.1/', '127.0.0.1', 443, 'in other digits'],
    ['https://127。0。0。1/', '127.0.0.1', 443, 'with other dots'],
    ['https://127.0.0.1./', '127.0.0.1', 443, 'with a final dot'],
    ['https://[::ffff:7f00:1]/', '::ffff:7f00:1', 443, 'mapped'],
    ['https:\\\\hooks.acme.test\\x', 'hooks.acme.test', 443, 'backslashes, which the standard takes'],
    [' https://hooks.acme.test/ ', 'hooks.acme.test', 443, 'spaces around it, which the standard drops'],
    ['https://evil.test\\@hooks.acme.test/', 'evil.test', 443, 'a backslash ends the host'],
  ] as const) {
    it(`reads ${JSON.stringify(text)}: ${reason}`, () => {
      const reading = readSafeUrl(text, { allowHttp: false });
      assert.ok(reading.kind === 'ok', JSON.stringify(reading));
      assert.deepEqual([reading.host, Number(reading.url.port || 443)], [host, port]);
    });
  }

  for (const [text, why, reason] of [
    ['http://hooks.acme.test/', /https/, 'not encrypted'],
    ['ftp://hooks.acme.test/', /https/, 'another protocol'],
    ['file:///etc/passwd', /https/, 'another protocol'],
    ['javascript:alert(1)', /https/, 'another protocol'],
    ['https://user@hooks.acme.test/', /user name/, 'a user'],
    ['https://user:word@hooks.acme.test/', /user name .*`headers`/, 'a password'],
    ['https://:word@hooks.acme.test/', /user name/, 'only a password'],
    ['https://hooks.acme.test/#x', /fragment/, 'a fragment'],
    ['https://hooks.acme.test/#', /fragment/, 'an empty fragment'],
    ['https://hooks.acme.test:80/', /port/, 'a port of another service'],
    ['https://hooks.acme.test:22/', /port/, 'a port of another service'],
    ['https://hooks.acme.test:25/', /port/, 'a port of another service'],
    ['https://hooks.acme.test:1023/', /port/, 'the last low port'],
    ['https://hooks.acme.test:0/', /port/, 'no port at all'],
    ['https://hooks.acme.test:65536/', /not a URL/, 'beyond the ports'],
    ['https://', /not a URL/, 'no host'],
    ['https://exa mple.test/', /not a URL/, 'a space in the host'],
    ['https://256.1.1.1/', /not a URL/, 'nearly an address'],
    ['https://[fe80::1%25eth0]/', /not a URL/, 'a zone'],
    ['//hooks.acme.test/', /not a URL/, 'no protocol'],
    ['hooks.acme.test', /not a URL/, 'only a name'],
    ['', /not a URL/, 'nothing'],
    [`https://hooks.acme.test/${'x'.repeat(LONGEST_URL)}`, /at most/, 'too long'],
    [`https://hooks.acme.test/${'ž'.repeat(LONGEST_URL / 4)}`, /encoded/, 'too long when encoded'],
  ] as const) {
    it(`refuses ${JSON.stringify(text.slice(0, 60))}: ${reason}`, () => {
      const reading = readSafeUrl(text, { allowHttp: false });
      assert.ok(reading.kind === 'bad', JSON.stringify(reading));
      assert.match(reading.why, why);
    });
  }

  it('opens http and port 80 where the operator says so', () => {
    for (const text of ['http://hooks.acme.test/', 'http://hooks.acme.test:8080/', 'https://hooks.acme.test:80/'])
      assert.equal(readSafeUrl(text, { allowHttp: true }).kind, 'ok', text);
    for (const text of ['http://hooks.acme.test:81/', 'ftp://hooks.acme.test/', 'http://a:b@hooks.acme.test/'])
      assert.equal(readSafeUrl(text, { allowHttp: true }).kind, 'bad', text);
  });

  it('never throws, and its result reads as itself', () => {
    fc.assert(
      fc.property(fc.oneof(fc.webUrl({ validSchemes: ['https'] }), fc.string()), (text) => {
        const reading = readSafeUrl(text, { allowHttp: false });
        if (reading.kind === 'bad') return;
        const again = readSafeUrl(reading.url.href, { allowHttp: false });
        assert.deepEqual(again, reading);
      }),
    );
  });
});
