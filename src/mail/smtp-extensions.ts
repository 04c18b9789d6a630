/** Reads the answer to EHLO (RFC 5321 section 4.1.1.1): one keyword a line, parameters after it. Pure. */
import type { SmtpReply } from './smtp-reply.ts';

export interface Extensions {
  pipelining: boolean;
  eightBitMime: boolean;
  smtpUtf8: boolean;
  startTls: boolean;
  requireTls: boolean;
  enhancedStatusCodes: boolean;
  /** True if MAIL may have the SIZE parameter. */
  size: boolean;
  /** Largest message taken, in octets; null if none is stated (RFC 1870 section 4). */
  sizeLimit: number | null;
  /** Messages per connection (LIMITS MAILMAX, RFC 9422); null if none is stated. */
  mailMax: number | null;
  /** Upper-case names of SASL mechanisms. */
  auth: readonly string[];
}

/** The extensions of a server that accepts HELO only: none. */
export const noExtensions: Extensions = {
  pipelining: false,
  eightBitMime: false,
  smtpUtf8: false,
  startTls: false,
  requireTls: false,
  enhancedStatusCodes: false,
  size: false,
  sizeLimit: null,
  mailMax: null,
  auth: [],
};

/** Reads the answer to EHLO; unknown keywords are passed over, of a repeated one the last counts. */
export function extensionsOf(reply: SmtpReply): Extensions {
  const offers = new Map<string, string>();
  for (const line of reply.lines.slice(1)) {
    const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/ +/);
    // "AUTH=PLAIN" is an old Outlook form.
    const [name = '', old] = keyword.split('=', 2);
    offers.set(name, old === undefined ? parameters.join(' ') : [old, ...parameters].join(' '));
  }
  const limits = new Map(
    (offers.get('LIMITS') ?? '').split(' ').map((each) => [each.split('=')[0], each.split('=')[1]]),
  );
  return {
    pipelining: offers.has('PIPELINING'),
    eightBitMime: offers.has('8BITMIME'),
    smtpUtf8: offers.has('SMTPUTF8'),
    startTls: offers.has('STARTTLS'),
    requireTls: offers.has('REQUIRETLS'),
    enhancedStatusCodes: offers.has('ENHANCEDSTATUSCODES'),
    size: offers.has('SIZE'),
    sizeLimit: positive(offers.get('SIZE')),
    mailMax: positive(limits.get('MAILMAX')),
    auth: (offers.get('AUTH') ?? '').split(' ').filter((mechanism) => mechanism !== ''),
  };
}

function positive(text: string | undefined): number | null {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return null;
  return Number(text) || null;
}

export interface Login {
  user: string;
  password: string;
}

export const NO_KNOWN_LOGIN = 'the server offers neither AUTH PLAIN nor AUTH LOGIN';

/**
 * Returns the lines to send in turn while the server asks for more (334), or null if it offers no mechanism of these.
 * `mechanisms` are upper-case names.
 */
export function loginLines(mechanisms: readonly string[], { user, password }: Login): readonly string[] | null {
  if (mechanisms.includes('PLAIN')) return [`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`];
  if (mechanisms.includes('LOGIN')) return ['AUTH LOGIN', base64(user), base64(password)];
  return null;
}

const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');
