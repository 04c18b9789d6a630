/** A resolver that is a table of records: no network, no waiting, nothing cached. */
import { reverseName } from '../../../src/net/resolver.ts';
import type { DnsAnswer, MxRecord, Resolver, TlsaRecord } from '../../../src/net/resolver.ts';
import { lookInZones, mxFrom, tlsaFrom } from './zones.ts';
import type { ZoneFault, Zones } from './zones.ts';

const whyOf = {
  SERVFAIL: 'servfail',
  REFUSED: 'refused',
  TIMEOUT: 'timeout',
  MALFORMED: 'malformed',
} as const satisfies Record<ZoneFault, string>;

export class FakeResolver implements Resolver {
  /** May be changed while a test runs. */
  zones: Zones;
  /** Every question, as `name TYPE`. */
  readonly asked: string[] = [];
  ttl = 300;
  /** Names whose answers have the AD bit; over aliases all of them must be here. */
  readonly secure = new Set<string>();

  constructor(zones: Zones = {}) {
    this.zones = zones;
  }

  mx(name: string): Promise<DnsAnswer<MxRecord>> {
    return this.answer(name, 'MX', mxFrom);
  }

  a(name: string): Promise<DnsAnswer<string>> {
    return this.answer(name, 'A', (text) => text);
  }

  aaaa(name: string): Promise<DnsAnswer<string>> {
    return this.answer(name, 'AAAA', (text) => text);
  }

  txt(name: string): Promise<DnsAnswer<string>> {
    return this.answer(name, 'TXT', (text) => text);
  }

  /** Zones may name the address itself: `'192.0.2.1 PTR': ['mail.acme.test']`. */
  ptr(ip: string): Promise<DnsAnswer<string>> {
    return this.answer(this.zones[`${ip} PTR`] === undefined ? reverseName(ip) : ip, 'PTR', (text) => text);
  }

  cname(name: string): Promise<DnsAnswer<string>> {
    return this.answer(name, 'CNAME', (text) => text);
  }

  tlsa(name: string): Promise<DnsAnswer<TlsaRecord>> {
    return this.answer(name, 'TLSA', tlsaFrom);
  }

  load(): { inFlight: number; waiting: number } {
    return { inFlight: 0, waiting: 0 };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  private answer<T>(name: string, type: string, read: (text: string) => T): Promise<DnsAnswer<T>> {
    this.asked.push(`${name} ${type}`);
    const found = lookInZones(this.zones, name, type);
    switch (found.kind) {
      case 'records': {
        const secure = [name.toLowerCase(), ...found.aliases.map(({ to }) => to)].every((one) => this.secure.has(one));
        return Promise.resolve({
          kind: 'found',
          records: found.records.map(read),
          name: found.name,
          ttl: this.ttl,
          secure,
        });
      }
      case 'no_data':
        return Promise.resolve({ kind: 'no_data', ...(this.secure.has(name.toLowerCase()) ? { secure: true } : {}) });
      case 'no_domain':
        return Promise.resolve({ kind: 'no_domain', fresh: true });
      case 'fault':
        return Promise.resolve({
          kind: 'trouble',
          why: whyOf[found.fault],
          text: `${type} of ${name}: ${found.fault}`,
        });
    }
  }
}
