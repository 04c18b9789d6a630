/** DNS data as plain text, shared by the fake resolver and the fake DNS server: `'dest.test MX': ['10 mx1.dest.test']`. */

/** `TIMEOUT`: no answer at all. `MALFORMED`: an answer that cannot be read. */
export type ZoneFault = 'SERVFAIL' | 'REFUSED' | 'TIMEOUT' | 'MALFORMED';

/** Keys are `name TYPE`. Values: records in the usual text form, or what goes wrong. An empty list makes the name exist. */
export type Zones = Record<string, readonly string[] | ZoneFault>;

export type ZoneAnswer =
  | { kind: 'records'; aliases: { from: string; to: string }[]; name: string; records: readonly string[] }
  | { kind: 'no_data' | 'no_domain'; aliases: { from: string; to: string }[] }
  | { kind: 'fault'; fault: ZoneFault };

export function lookInZones(zones: Zones, asked: string, type: string): ZoneAnswer {
  const aliases: { from: string; to: string }[] = [];
  let name = asked.toLowerCase();
  for (let hop = 0; hop < 20; hop++) {
    const found = zones[`${name} ${type}`];
    if (typeof found === 'string') return { kind: 'fault', fault: found };
    if (found !== undefined && found.length > 0) return { kind: 'records', aliases, name, records: found };
    // Answered without a search through all keys, which takes milliseconds in zones of tens of thousands.
    if (found !== undefined) return { kind: 'no_data', aliases };
    const alias = zones[`${name} CNAME`];
    const to = Array.isArray(alias) ? String(alias[0]) : undefined;
    if (to === undefined) break;
    aliases.push({ from: name, to });
    name = to;
  }
  const exists = Object.keys(zones).some(
    (key) => key.startsWith(`${name} `) || key.split(' ')[0]?.endsWith(`.${name}`),
  );
  return { kind: exists ? 'no_data' : 'no_domain', aliases };
}

export function mxFrom(text: string): { preference: number; exchange: string } {
  const [preference = '', exchange = ''] = text.split(' ');
  return { preference: Number(preference), exchange };
}

/** `3 1 1 <hex>` */
export function tlsaFrom(text: string): { usage: number; selector: number; matchingType: number; certificate: Buffer } {
  const [usage, selector, matchingType, hex = ''] = text.split(' ');
  return {
    usage: Number(usage),
    selector: Number(selector),
    matchingType: Number(matchingType),
    certificate: Buffer.from(hex, 'hex'),
  };
}
