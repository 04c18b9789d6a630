/**
 * What the numbers are made of. Every event adds to a row per hour and per day, for its stream, sending domain and recipient
 * provider, and once more for each of its message's tags. Rows of a grouped commit are merged first, so a busy server writes a
 * handful of them for hundreds of events.
 */
import type { StatRow } from '../storage/tables.ts';

const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** What is counted: the kinds of events, what tells bounces apart, and people and machines that looked. */
export const statTypes = [
  'sent', 'delivered', 'deferred', 'bounced', 'bounced_hard', 'bounced_soft', 'bounced_block', 'complained', 'suppressed', 'failed',
  'opened', 'unique_opened', 'machine_opened', 'clicked', 'unique_clicked', 'machine_clicked', 'unsubscribed',
] as const; // prettier-ignore
export type StatType = (typeof statTypes)[number];

/** What an event is counted by. */
export interface StatFacts {
  accountId: string;
  at: number;
  test: boolean;
  stream: string;
  /** The sending domain. */
  domain: string;
  recipient: string;
  tags: readonly string[];
}

/** Large mailbox providers by the domain of the address. Mail hosted there under a domain of its own counts as `other`. */
const providers: Readonly<Record<string, readonly string[]>> = {
  google: ['gmail.com', 'googlemail.com'],
  microsoft: ['outlook.com', 'hotmail.com', 'live.com', 'msn.com', 'hotmail.co.uk', 'hotmail.fr', 'hotmail.de', 'hotmail.it', 'hotmail.es', 'outlook.fr', 'outlook.de', 'outlook.es', 'live.fr', 'live.nl', 'live.co.uk'],
  yahoo: ['yahoo.com', 'ymail.com', 'rocketmail.com', 'aol.com', 'yahoo.co.uk', 'yahoo.fr', 'yahoo.de', 'yahoo.it', 'yahoo.es', 'yahoo.ca', 'yahoo.com.br', 'yahoo.co.in', 'yahoo.in'],
  yahoo_japan: ['yahoo.co.jp'],
  apple: ['icloud.com', 'me.com', 'mac.com'],
  gmx: ['gmx.de', 'gmx.net', 'gmx.at', 'gmx.ch', 'gmx.com', 'web.de', 'mail.com'],
  proton: ['proton.me', 'protonmail.com', 'pm.me'],
  mailru: ['mail.ru', 'bk.ru', 'inbox.ru', 'list.ru'],
  yandex: ['yandex.ru', 'yandex.com', 'ya.ru'],
  qq: ['qq.com', 'foxmail.com'],
  netease: ['163.com', '126.com', 'yeah.net'],
  comcast: ['comcast.net', 'xfinity.com'],
  orange: ['orange.fr', 'wanadoo.fr'],
  free: ['free.fr'],
  telekom: ['t-online.de', 'magenta.de'],
  libero: ['libero.it', 'virgilio.it', 'iol.it'],
  zoho: ['zoho.com', 'zohomail.com'],
  fastmail: ['fastmail.com', 'fastmail.fm'],
}; // prettier-ignore
const providerByDomain = new Map(Object.entries(providers).flatMap(([name, domains]) => domains.map((one) => [one, name] as const))); // prettier-ignore

/** Every name `providerOf` may answer. */
export const providerNames: readonly string[] = [...Object.keys(providers), 'other'];

/** The recipient's mailbox provider, `other` where it is none of the large ones. */
export function providerOf(address: string): string {
  return providerByDomain.get(address.slice(address.lastIndexOf('@') + 1)) ?? 'other';
}

/** Under which names an event of this type counts. */
export function statTypesOf(type: string, detail: Readonly<Record<string, unknown>>, machine: boolean): StatType[] {
  if (type === 'opened' || type === 'clicked') {
    if (machine) return [`machine_${type}`];
    return detail['first'] === true ? [type, `unique_${type}`] : [type];
  }
  const known = statTypes.find((one) => one === type);
  if (known === undefined) return [];
  const kind = type === 'bounced' ? statTypes.find((one) => one === `bounced_${String(detail['class'])}`) : undefined;
  return kind === undefined ? [known] : [known, kind];
}

/** Adds one event to the rows gathered for a commit. */
export function addToStats(rows: Map<string, StatRow>, facts: StatFacts, types: readonly StatType[]): void {
  const { accountId, test, stream, domain } = facts;
  const provider = providerOf(facts.recipient);
  for (const span of ['hour', 'day'] as const) {
    const at = facts.at - (facts.at % (span === 'hour' ? HOUR_MS : DAY_MS));
    for (const type of types)
      for (const tag of ['', ...facts.tags]) {
        const key = `${accountId} ${span} ${String(at)} ${type} ${String(test)} ${stream} ${domain} ${provider} ${tag}`;
        const row = rows.get(key);
        if (row === undefined)
          rows.set(key, { account_id: accountId, span, at, type, test: test ? 1 : 0, stream, domain, provider, tag, n: 1 }); // prettier-ignore
        else row.n++;
      }
  }
}
