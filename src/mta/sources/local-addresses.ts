/**
 * The addresses of this machine that a source's connections come from, and their families (`delivery.ipv6`). Large receivers refuse
 * IPv6 senders whose address has no name, or one that does not lead back. So with `auto` IPv6 is used only from an address whose
 * names agree in both directions; this is looked up at the start, again while DNS does not answer, and mail leaves over IPv4 meanwhile.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { namedIpv6Address } from '../../net/own-addresses.ts';
import type { Resolver } from '../../net/resolver.ts';
import type { Source } from './sources.ts';

export interface Local {
  addresses: readonly string[];
  families: readonly number[];
}

export type LocalAddresses = ReturnType<typeof createLocalAddresses>;

export interface LocalAddressOptions {
  ipv6: 'auto' | 'never' | 'always';
  sources: readonly { name: string; ipv6: string | null }[];
  own: readonly string[];
}

const LOOK_AGAIN_MS = 60_000;

export function createLocalAddresses(
  { clock, log, resolver }: { clock: Clock; log: Log; resolver: Pick<Resolver, 'ptr' | 'aaaa'> },
  { ipv6, sources, own }: LocalAddressOptions,
) {
  /** IPv6 addresses that may be used: those of sources, and the one of the system under no name. */
  const usable = new Map<string | null, string | null>();
  const known = new Map<string | null, Local>();
  let isSure = ipv6 !== 'auto';
  if (ipv6 === 'always') {
    usable.set(null, null);
    for (const { name, ipv6: address } of sources) if (address !== null) usable.set(name, address);
  }
  if (ipv6 === 'auto') void look();

  async function look(): Promise<void> {
    const system = await namedIpv6Address({ resolver }, own);
    const { address } = system;
    let areSure = system.isSure;
    log.debug(
      { event: 'ipv6', source: address },
      address !== null
        ? 'mail hosts are dialled over IPv6 too'
        : 'no IPv6 address of this machine has a name that leads back to it',
    );
    if (address !== null) usable.set(null, address);
    for (const { name, ipv6: wanted } of sources) {
      if (wanted === null) continue;
      const found = await namedIpv6Address({ resolver }, [wanted]);
      areSure &&= found.isSure;
      if (found.address !== null) usable.set(name, wanted);
      else if (found.isSure)
        log.warn(
          { event: 'ipv6_unnamed', source: name, address: wanted },
          'an IPv6 address of a source has no name that leads back to it: it is not used (delivery.ipv6)',
        );
    }
    known.clear();
    isSure = areSure;
    if (!isSure) clock.after(LOOK_AGAIN_MS, () => void look(), { background: true });
  }

  function localOf({ name, ipv4 }: Source): Local {
    const six = usable.get(name) ?? null;
    const addresses = [ipv4, six].filter((address) => address !== null);
    // If no source uses IPv6, only a route can name an IPv6 address.
    if (name === null && usable.size === 0) return { addresses, families: [4, 6] };
    const families = [...(name === null || ipv4 !== null ? [4] : []), ...(usable.has(name) ? [6] : [])];
    return { addresses, families };
  }

  return {
    isUsed: () => usable.size > 0,
    /** False while it is not known whether any may, since DNS has not answered yet. */
    isSure: () => isSure || usable.size > 0,
    of(source: Source): Local {
      let local = known.get(source.name);
      if (local === undefined) {
        local = localOf(source);
        known.set(source.name, local);
      }
      return local;
    },
  };
}
