import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseRoute } from '../../src/config/route.ts';
import type { RouteTls } from '../../src/config/route.ts';

const smarthost = (
  host: string,
  port: number,
  tls: RouteTls,
  auth: { user: string; password: string } | null = null,
) => ({
  kind: 'smarthost' as const,
  host,
  port,
  tls,
  auth,
});
const login = { user: 'u', password: 'p' };

describe('parseRoute', () => {
  for (const [written, route, reason] of [
    ['mx', { kind: 'mx' }, 'what DNS names'],
    ['discard', { kind: 'discard' }, 'thrown away'],
    ['hold', { kind: 'hold' }, 'kept'],
    ['127.0.0.1:2626', smarthost('127.0.0.1', 2626, 'opportunistic'), 'an address with port'],
    ['[::1]:2525', smarthost('::1', 2525, 'opportunistic'), 'IPv6 in brackets'],
    ['Relay.Example:587', smarthost('relay.example', 587, 'opportunistic'), 'a name, held in lower case'],
    ['relay.example:465', smarthost('relay.example', 465, 'implicit'), 'port 465 speaks TLS from the start'],
    [{ host: 'relay.example', port: 25 }, smarthost('relay.example', 25, 'opportunistic'), 'members'],
    [
      { host: 'relay.example', port: 587, ...login },
      smarthost('relay.example', 587, 'required', login),
      'a password is not sent in clear',
    ],
    [
      { host: 'relay.example', port: 25, tls: 'none', ...login },
      smarthost('relay.example', 25, 'none', login),
      'unless one says so',
    ],
    [{ host: '::1', port: 25, tls: 'required' }, smarthost('::1', 25, 'required'), 'bare IPv6'],
  ] as const) {
    it(`reads ${JSON.stringify(written)}: ${reason}`, () => {
      assert.deepEqual(parseRoute(written), { kind: 'ok', route });
    });
  }

  for (const [written, expected, reason] of [
    ['relay.example', /host:port/, 'no port'],
    ['relay.example:0', /host:port/, 'port 0'],
    ['::1:25', /host:port/, 'IPv6 without brackets is ambiguous'],
    ['MX', /host:port/, 'the words are lower case'],
    ['', /host:port/, 'nothing'],
    [25, /host:port/, 'a number'],
    [null, /host:port/, 'null'],
    [['mx'], /host:port/, 'a list'],
    [{ port: 25 }, /host/, 'no host'],
    [{ host: 'relay.example' }, /port/, 'no port'],
    [{ host: 'relay.example', port: '25' }, /port/, 'the port as text'],
    [{ host: 'relay.example', port: 25, tls: 'yes' }, /opportunistic, required/, 'no such mode'],
    [{ host: 'relay.example', port: 25, user: 'u' }, /both/, 'a user without password'],
    [{ host: 'relay.example', port: 25, pass: 'p' }, /no member "pass"/, 'an unknown member'],
  ] as const) {
    it(`refuses ${JSON.stringify(written)}: ${reason}`, () => {
      const reading = parseRoute(written);
      assert.ok(reading.kind === 'bad');
      assert.match(`${reading.faults[0]?.member ?? ''} ${reading.faults[0]?.expected ?? ''}`, expected);
    });
  }

  it('names every member that is wrong', () => {
    const reading = parseRoute({ host: 'relay.example', port: '587', tls: 'starttls' });
    assert.deepEqual(reading.kind === 'bad' && reading.faults.map(({ member }) => member), ['port', 'tls']);
  });

  it('never throws', () => {
    fc.assert(fc.property(fc.oneof(fc.anything(), fc.string()), (written) => void parseRoute(written)));
  });
});
