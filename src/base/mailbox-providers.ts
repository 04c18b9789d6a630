/** The large mailbox providers, by the domains of the addresses that they give to the public. */

/** Mail hosted at one under another domain counts as `other`. */
const providers: Readonly<Record<string, string>> = {
  google: 'gmail.com googlemail.com',
  microsoft:
    'outlook.com hotmail.com live.com msn.com hotmail.co.uk hotmail.fr hotmail.de hotmail.it hotmail.es outlook.fr outlook.de outlook.es live.fr live.nl live.co.uk',
  yahoo:
    'yahoo.com ymail.com rocketmail.com aol.com yahoo.co.uk yahoo.fr yahoo.de yahoo.it yahoo.es yahoo.ca yahoo.com.br yahoo.co.in yahoo.in',
  yahoo_japan: 'yahoo.co.jp',
  apple: 'icloud.com me.com mac.com',
  gmx: 'gmx.de gmx.net gmx.at gmx.ch gmx.com web.de mail.com',
  proton: 'proton.me protonmail.com pm.me',
  mailru: 'mail.ru bk.ru inbox.ru list.ru',
  yandex: 'yandex.ru yandex.com ya.ru',
  qq: 'qq.com foxmail.com',
  netease: '163.com 126.com yeah.net',
  comcast: 'comcast.net xfinity.com',
  orange: 'orange.fr wanadoo.fr',
  free: 'free.fr',
  telekom: 't-online.de magenta.de',
  libero: 'libero.it virgilio.it iol.it',
  zoho: 'zoho.com zohomail.com',
  fastmail: 'fastmail.com fastmail.fm',
};
const providerByDomain = new Map(
  Object.entries(providers).flatMap(([name, domains]) => domains.split(' ').map((one) => [one, name] as const)),
);

export const providerNames: readonly string[] = [...Object.keys(providers), 'other'];

/** Returns the recipient's mailbox provider, or `other` if it is not one of the large ones. */
export function providerOf(address: string): string {
  return providerByDomain.get(address.slice(address.lastIndexOf('@') + 1)) ?? 'other';
}

/** Returns whether addresses of this domain belong to a mailbox provider's users. */
export const isProviderDomain = (domain: string): boolean => providerByDomain.has(domain);
