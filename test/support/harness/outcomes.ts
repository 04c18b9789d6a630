/** Every outcome of an attempt, with all members filled in. */
import type { AttemptFacts, Outcome, Verdict } from '../../../src/messages/delivery/delivery.ts';
import { NOW } from './mail-rows.ts';

export function factsOf(changes: Partial<AttemptFacts> = {}): AttemptFacts {
  return {
    startedAt: NOW,
    endedAt: NOW + 310,
    mx: 'mx1.dest.test',
    ip: '192.0.2.25',
    source: null,
    tls: { protocol: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384', verified: true, policy: 'opportunistic' },
    timings: { connect: 1.5 },
    smtpCode: 250,
    enhancedCode: '2.0.0',
    smtpReply: '2.0.0 OK',
    ...changes,
  };
}

const refusedFacts = { smtpCode: 550, enhancedCode: '5.1.1', smtpReply: '5.1.1 no such user' };
const laterFacts = { smtpCode: 451, enhancedCode: '4.3.0', smtpReply: '4.3.0 later' };

export const unknownMailbox: Verdict = { class: 'hard', reason: 'mailbox_not_found' };

export const accepted = (changes: Partial<AttemptFacts> = {}): Outcome => ({
  kind: 'accepted',
  facts: factsOf(changes),
  viaRelay: false,
});

export const refused = (verdict: Verdict = unknownMailbox): Outcome => ({
  kind: 'refused',
  facts: factsOf(refusedFacts),
  verdict,
});

export const deferred = (retryAt: number, changes: { noDomain?: true; verdict?: Verdict } = {}): Outcome => ({
  kind: 'deferred',
  facts: factsOf(laterFacts),
  verdict: { class: 'soft', reason: 'other' },
  retryAt,
  ...changes,
});

export const uncertain = (retryAt: number): Outcome => ({
  kind: 'uncertain',
  facts: factsOf({ smtpCode: null, enhancedCode: null, smtpReply: 'the connection closed' }),
  retryAt,
});

export const failed = (): Outcome => ({
  kind: 'failed',
  facts: factsOf({ smtpCode: null, enhancedCode: null, smtpReply: 'no content' }),
  reason: 'unbuildable',
  message: 'no content',
});
