/**
 * The simulator: mail of test keys and to the simulator's domain goes the whole way but for the network, and ends as its
 * address (or `test.outcome`) says. Changes after the delivery are written in the same transaction as the delivery.
 */
import type { AttemptFacts, DeliveryChange, Outcome } from '../../messages/delivery/delivery.ts';

export type SimulatedEnd = 'delivered' | 'bounced' | 'deferred' | 'complained' | 'opened' | 'clicked';
const ends: readonly string[] = ['delivered', 'bounced', 'deferred', 'complained', 'opened', 'clicked'];

const HOST = 'mx.simulator.posthorn.test';
const AGENT = 'Posthorn simulator';
/** Two of these make a deferred message arrive well within 15 seconds. */
const DEFERRAL_MS = 3_000;
const DEFERRALS = 2;

/** Returns the end: `test.outcome` first, then the local part at the simulator's domain (`bounced+tag@`), else delivered. */
export function simulatedEnd(outcome: string | null, address: string, simulatorDomain: string): SimulatedEnd {
  if (outcome !== null && ends.includes(outcome)) return outcome as SimulatedEnd;
  const at = address.lastIndexOf('@');
  if (address.slice(at + 1) !== simulatorDomain) return 'delivered';
  const name = address.slice(0, at).split('+')[0]?.toLowerCase() ?? '';
  return ends.includes(name) ? (name as SimulatedEnd) : 'delivered';
}

/** Returns the outcome of an attempt by its number, and the changes that follow it. */
export function simulate(
  end: SimulatedEnd,
  attempt: number,
  now: number,
): { outcome: Outcome; followUps: readonly DeliveryChange[] } {
  if (end === 'bounced') {
    const facts = simulatedFacts(now, 550, '5.1.1', '5.1.1 The simulator knows no such mailbox');
    return {
      outcome: { kind: 'refused', facts, verdict: { class: 'hard', reason: 'mailbox_not_found' } },
      followUps: [],
    };
  }
  if (end === 'deferred' && attempt <= DEFERRALS) {
    const facts = simulatedFacts(now, 451, '4.3.0', '4.3.0 The simulator asks for patience');
    return {
      outcome: { kind: 'deferred', facts, verdict: { class: 'soft', reason: 'other' }, retryAt: now + DEFERRAL_MS },
      followUps: [],
    };
  }
  const facts = simulatedFacts(now, 250, '2.0.0', '2.0.0 The simulator took it');
  return { outcome: { kind: 'accepted', facts, viaRelay: false }, followUps: after(end, now) };
}

function after(end: SimulatedEnd, now: number): readonly DeliveryChange[] {
  const hit = { at: now, ip: '192.0.2.1', userAgent: AGENT, bot: null };
  if (end === 'complained')
    return [{ kind: 'complained', feedbackType: 'abuse', source: 'arf', arrivalDate: now, userAgent: AGENT }];
  if (end === 'opened') return [{ kind: 'opened', hit, client: null, os: null, device: null }];
  if (end === 'clicked')
    return [{ kind: 'clicked', hit, url: 'https://simulator.posthorn.test/', linkId: '1', part: 'html' }];
  return [];
}

const simulatedFacts = (now: number, smtpCode: number, enhancedCode: string, smtpReply: string): AttemptFacts => ({
  startedAt: now,
  endedAt: now,
  mx: HOST,
  ip: null,
  source: null,
  tls: null,
  timings: {},
  smtpCode,
  enhancedCode,
  smtpReply,
});
