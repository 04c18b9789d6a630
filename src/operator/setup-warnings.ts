/** Finds settings that are good and still keep mail, or the links in it, from arriving. The start, `config check` and the doctor say so. */
import type { Config } from '../config/schema.ts';
import { isUsableHere } from '../net/own-addresses.ts';
import { urlReach } from '../tracking/host.ts';

/** One line each. */
export async function setupWarnings(config: Config): Promise<string[]> {
  const absent = await absentSources(config);
  return [...linksFaults(config), ...absent.map(({ why }) => why)];
}

/** Returns why recipients cannot open links of this server. One without a name is only being tried out. */
export function linksFaults({ http, smtp }: Config): string[] {
  const reach = urlReach(http);
  if (reach === 'all' || !(http.isPublicUrlChosen || smtp.isHostnameChosen)) return [];
  if (reach === 'unset') return ['http.publicUrl is not set: opens and clicks of mail are not tracked'];
  const where = reach === 'machine' ? 'on this machine' : 'in a private network';
  return [`http.publicUrl (${http.publicUrl}) opens ${where} only, and links of tracked mail begin with it`];
}

/** Returns the addresses of this node's sources that the machine does not have. */
export async function absentSources({ delivery, node }: Config): Promise<{ address: string; why: string }[]> {
  const found = delivery.sources
    .filter((source) => source.node === null || source.node === node.name)
    .flatMap(({ name, ipv4, ipv6 }) => [ipv4, ipv6].map((address) => ({ name, address: address ?? '' })))
    .map(async ({ name, address }) => {
      const why = `delivery.sources: the address ${address} of ${name} is not on this machine: nothing is sent from it`;
      return address === '' || (await isUsableHere(address)) ? [] : [{ address, why }];
    });
  return (await Promise.all(found)).flat();
}
