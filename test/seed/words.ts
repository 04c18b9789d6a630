/** Texts of seeded mail, its recipients, and the answers of mail hosts. Nothing here can be reached: see `domainOf` in people.ts. */

export type Some<T> = readonly [T, ...T[]];

/** Kinds of mail with their share of all mail other than campaigns. `{n}` is a running number. */
export interface Kind {
  name: string;
  share: number;
  subjects: Some<string>;
  tags: readonly string[];
  template: string | null;
}

export const kinds: Some<Kind> = [
  {
    name: 'receipt',
    share: 30,
    tags: ['receipt', 'shop'],
    template: 'order-receipt',
    subjects: [
      'Your order {n} is confirmed',
      'Ihre Bestellung {n} ist bestätigt',
      'Votre commande {n} est confirmée',
      'ご注文 {n} の確認',
      'Pedido {n} confirmado — gracias 🎉',
    ],
  },
  {
    name: 'shipping',
    share: 20,
    tags: ['shipping', 'shop'],
    template: 'order-shipped',
    subjects: [
      'Order {n} is on its way',
      'Ihr Paket {n} ist unterwegs',
      '注文 {n} を発送しました',
      'Ваш заказ {n} отправлен',
    ],
  },
  {
    name: 'password',
    share: 20,
    tags: ['account'],
    template: null,
    subjects: ['Reset your password', 'Passwort zurücksetzen', 'パスワードの再設定', 'إعادة تعيين كلمة المرور'],
  },
  {
    name: 'sign_in',
    share: 15,
    tags: ['account', 'security'],
    template: null,
    subjects: ['New sign-in to your account', 'Your sign-in code: {n}', 'Κωδικός σύνδεσης: {n}', '您的登录验证码：{n}'],
  },
  {
    name: 'invoice',
    share: 10,
    tags: ['billing'],
    template: null,
    subjects: ['Invoice {n}', 'Rechnung {n} für Ihr Konto', 'Facture n° {n}', 'चालान {n}'],
  },
  {
    name: 'long',
    share: 1,
    tags: ['account'],
    template: null,
    subjects: [
      `Notice about your account {n}: ${'we have changed how long we keep what you have told us, and why, '.repeat(12)}`,
      `${'長い件名の知らせ'.repeat(40)} {n}`,
    ],
  },
];

export const campaigns: Some<{ subject: string; tags: readonly string[] }> = [
  { subject: 'What is new this week', tags: ['newsletter'] },
  { subject: 'Autumn sale: 20 % on everything 🍂', tags: ['newsletter', 'sale'] },
  { subject: 'Neuigkeiten für Sie', tags: ['newsletter'] },
  { subject: '今週のおすすめ', tags: ['newsletter', 'japan'] },
];

export const givenNames: Some<string> = [
  'Ana',
  'Jürgen',
  'Zoë',
  'Łukasz',
  '太郎',
  'Мария',
  'فاطمة',
  'Siobhán',
  'José',
  '小美',
  'Nguyễn',
  'Anke',
  'Olu',
  'Priya',
  'Ελένη',
];
export const familyNames: Some<string> = [
  'Costa',
  'Weiß',
  'de Vries',
  'Kowalski',
  '山田',
  'Иванова',
  'Haddad',
  'Ó Súilleabháin',
  'García',
  '王',
  'Smith',
  'Okafor',
  'Sharma',
];

/** Recipient domains with their weights. */
export const mailboxDomains: Readonly<Record<string, number>> = {
  'gmail.com': 40,
  'outlook.com': 9,
  'hotmail.com': 6,
  'yahoo.com': 8,
  'icloud.com': 7,
  'gmx.de': 4,
  'web.de': 3,
  'orange.fr': 3,
  'yahoo.co.jp': 3,
  'mail.ru': 2,
  't-online.de': 2,
  'proton.me': 2,
  'fastmail.com': 1,
  'acme-customer.example': 4,
  'university.example': 2,
  'xn--mnchen-3ya.example': 1,
  'a-rather-long-name-of-a-department-at-some-institute.research-organisation.example': 1,
};

/** Where mail waits: names that no resolver knows, so that a server started on this data dials no host. */
export const waitingDomains: Some<string> = ['slow.test', 'greylist.test', 'full-mailboxes.test', 'unreachable.test'];

export interface Refusal {
  code: number | null;
  enhanced: string | null;
  reply: string;
  class: 'hard' | 'soft' | 'block';
  reason:
    | 'mailbox_not_found'
    | 'mailbox_disabled'
    | 'policy'
    | 'reputation'
    | 'spam'
    | 'mailbox_full'
    | 'rate_limited'
    | 'network';
}

export const hard: Some<Refusal> = [
  { code: 550, enhanced: '5.1.1', reply: '550 5.1.1 No such user here', class: 'hard', reason: 'mailbox_not_found' },
  {
    code: 550,
    enhanced: '5.1.1',
    reply: '550 5.1.1 Recipient address rejected: user unknown in virtual mailbox table',
    class: 'hard',
    reason: 'mailbox_not_found',
  },
  {
    code: 554,
    enhanced: '5.2.1',
    reply: '554 5.2.1 This mailbox is disabled',
    class: 'hard',
    reason: 'mailbox_disabled',
  },
];
export const blocks: Some<Refusal> = [
  {
    code: 550,
    enhanced: '5.7.1',
    reply: '550 5.7.1 Message refused by local policy',
    class: 'block',
    reason: 'policy',
  },
  { code: 554, enhanced: '5.7.1', reply: '554 5.7.1 Sending host is listed', class: 'block', reason: 'reputation' },
  { code: 552, enhanced: '5.7.0', reply: '552 5.7.0 Content looks like spam', class: 'block', reason: 'spam' },
];
export const delays: Some<Refusal> = [
  {
    code: 451,
    enhanced: '4.7.1',
    reply: '451 4.7.1 Greylisted, try again in five minutes',
    class: 'soft',
    reason: 'policy',
  },
  { code: 452, enhanced: '4.2.2', reply: '452 4.2.2 Mailbox full', class: 'soft', reason: 'mailbox_full' },
  {
    code: 421,
    enhanced: '4.7.0',
    reply: '421 4.7.0 Too many messages from this address, slow down',
    class: 'soft',
    reason: 'rate_limited',
  },
  { code: null, enhanced: null, reply: 'connection timed out', class: 'soft', reason: 'network' },
];

export const browsers: Some<string> = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148',
  'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Thunderbird/128.0',
];
export const machines: Some<{ bot: 'apple_mpp' | 'gmail_proxy' | 'scanner' | 'prefetch'; agent: string }> = [
  { bot: 'apple_mpp', agent: 'Mozilla/5.0' },
  {
    bot: 'gmail_proxy',
    agent: 'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)',
  },
  { bot: 'scanner', agent: 'BarracudaCentral' },
  {
    bot: 'prefetch',
    agent: 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)',
  },
];

export const links: Some<string> = [
  'https://shop.test/orders',
  'https://shop.test/account',
  'https://shop.test/p/42?utm_source=mail',
  'https://acme.test/help',
];
