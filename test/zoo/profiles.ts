/** Known receivers, as data: what each says, in which of its wordings, and where in the dialogue. */
import type { Stage } from './behaviour.ts';
import type { Meaning } from './wording.ts';

export interface Says {
  meaning: Meaning;
  /** Which of the meaning's wordings. */
  number: number;
  at: Stage;
}

export const profiles = {
  gmail: {
    mailboxRate: { meaning: 'mailboxRate', number: 0, at: 'rcpt' },
    unusualRate: { meaning: 'senderRate', number: 0, at: 'message' },
    unauthenticated: { meaning: 'unauthenticated', number: 0, at: 'message' },
    likelySpam: { meaning: 'likelySpam', number: 0, at: 'message' },
  },
  outlook: {
    connections: { meaning: 'tooManyConnections', number: 2, at: 'connect' },
    busy: { meaning: 'serverBusy', number: 0, at: 'message' },
    banned: { meaning: 'bannedAddress', number: 0, at: 'rcpt' },
    blockList: { meaning: 'bannedAddress', number: 1, at: 'mail' },
    rateLimited: { meaning: 'senderRate', number: 2, at: 'mail' },
    unauthenticated: { meaning: 'unauthenticated', number: 1, at: 'message' },
    blockedByTenant: { meaning: 'tenantBlocklist', number: 0, at: 'rcpt' },
    unknownUser: { meaning: 'unknownUser', number: 4, at: 'rcpt' },
  },
  yahoo: {
    deferred: { meaning: 'senderRate', number: 1, at: 'mail' },
    deferredAtGreeting: { meaning: 'senderRate', number: 1, at: 'connect' },
    policy: { meaning: 'unauthenticated', number: 2, at: 'message' },
  },
  proofpoint: {
    blocked: { meaning: 'bannedAddress', number: 2, at: 'rcpt' },
    blockedByTenant: { meaning: 'tenantBlocklist', number: 1, at: 'rcpt' },
  },
  postfix: {
    connections: { meaning: 'tooManyConnections', number: 0, at: 'connect' },
    tooMuchMail: { meaning: 'tooMuchMail', number: 0, at: 'mail' },
    relayDenied: { meaning: 'relayDenied', number: 0, at: 'rcpt' },
    unknownUser: { meaning: 'unknownUser', number: 0, at: 'rcpt' },
    blockedAtGreeting: { meaning: 'bannedAddress', number: 5, at: 'connect' },
    greylisted: { meaning: 'greylisted', number: 1, at: 'rcpt' },
    mustStartTls: { meaning: 'mustStartTls', number: 0, at: 'mail' },
    noStorage: { meaning: 'serverBusy', number: 2, at: 'mail' },
    mailboxRate: { meaning: 'mailboxRate', number: 3, at: 'rcpt' },
  },
  exim: {
    connections: { meaning: 'tooManyConnections', number: 1, at: 'connect' },
    relayDenied: { meaning: 'relayDenied', number: 1, at: 'rcpt' },
    laterOnly: { meaning: 'greylisted', number: 5, at: 'rcpt' },
  },
  spamd: {
    greylisted: { meaning: 'greylisted', number: 4, at: 'rcpt' },
  },
  sendmail: {
    rate: { meaning: 'tooMuchMail', number: 3, at: 'mail' },
    overloaded: { meaning: 'serverBusy', number: 1, at: 'mail' },
  },
  rspamd: {
    rate: { meaning: 'tooMuchMail', number: 4, at: 'rcpt' },
    greylisted: { meaning: 'greylisted', number: 0, at: 'rcpt' },
    spam: { meaning: 'likelySpam', number: 1, at: 'message' },
  },
  appliance: {
    tooManyMessages: { meaning: 'tooMuchMail', number: 1, at: 'mail' },
    perMinute: { meaning: 'tooMuchMail', number: 2, at: 'mail' },
    mailboxRate: { meaning: 'mailboxRate', number: 1, at: 'rcpt' },
  },
} as const satisfies Record<string, Record<string, Says>>;
