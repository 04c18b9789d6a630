/** Turns the answers of mail hosts and DNS into outcomes of a delivery. Pure. */
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import { stsNames } from '../../mail/sts-policy.ts';
import { judge, type Judge, type Judgement, type Refusal } from '../../messages/delivery/classify.ts';
import {
  factsWithoutHost,
  HELD_BY_US,
  type AttemptFacts,
  type BounceReason,
  type Grounds,
  type Outcome,
  type Verdict,
  type DeliveryChange,
} from '../../messages/delivery/delivery.ts';
import { type RetryHint, askedPause } from '../../messages/delivery/retry.ts';
import { subjectOf } from './subject.ts';
import type { OpenResult } from '../connection/open-session.ts';
import { noTimings } from '../connection/phases.ts';
import type { Transfer } from '../connection/session.ts';
import { type TlsResult, tlsNeed, type PolicyName, type TlsRequest } from '../connection/tls-policy.ts';
import type { MailRoute } from '../dns/mx.ts';
import type { Host, Site } from '../sites/sites.ts';

export interface AttemptFrame {
  startedAt: number;
  endedAt: number;
  /** When to try again, if that is needed. */
  retryAt: number;
  viaRelay: boolean;
  /** Reads refusals; by the shipped rules if left out. */
  judge?: Judge;
  /** Returns when to try again if the refusal contains a hint; `retryAt` if this is left out. */
  retryWith?: (hint: RetryHint) => number;
}

export interface Place {
  mx: string;
  ip: string;
  source: string | null;
}

export type EndedTransfer = Exclude<Transfer, { kind: 'withheld' }>;

export function outcomeOfTransfer(frame: AttemptFrame, place: Place, transfer: EndedTransfer): Outcome {
  const facts = (reply: SmtpReply | null, text: string | null): AttemptFacts => ({
    tls: tlsFacts(transfer.tls),
    timings: rounded(transfer.timings),
    ...frameFacts(frame),
    ...place,
    ...replyFacts(reply, text),
  });
  switch (transfer.kind) {
    case 'accepted':
      return { kind: 'accepted', facts: facts(transfer.reply, null), viaRelay: frame.viaRelay };
    case 'refused':
      return refusal(frame, facts(transfer.reply, null), {
        phase: transfer.phase,
        mx: place.mx,
        ...replyParts(isTooManyRecipients(transfer) ? { ...transfer.reply, code: 452 } : transfer.reply),
      });
    case 'broken': {
      const broken = { ...facts(transfer.reply, null), smtpReply: `${transfer.phase}: ${transfer.text}` };
      if (transfer.uncertain) return { kind: 'uncertain', facts: broken, retryAt: frame.retryAt };
      return later(frame, broken, 'network');
    }
    case 'unsupported':
      return unsupported(facts(null, null), transfer);
  }
}

/** Returns the outcome if no host could be reached, or none let us in: the message is tried again. */
export function outcomeOfDial(
  frame: AttemptFrame,
  place: Place,
  failed: Extract<OpenResult, { kind: 'failed' }>,
): Outcome {
  const facts: AttemptFacts = {
    tls: tlsFacts(failed.tls),
    timings: rounded(failed.timings),
    ...frameFacts(frame),
    ...place,
    ...replyFacts(failed.reply, `${failed.phase}: ${failed.text}`),
  };
  if (failed.tlsUnsatisfied) return later(frame, facts, 'tls_required');
  if (failed.reply === null) return later(frame, facts, 'network');
  const phase = failed.phase === 'block' ? 'dot' : failed.phase;
  const refused: Refusal = { phase, mx: place.mx, ...replyParts(failed.reply) };
  const judged = judgeOf(frame)(refused);
  const verdict: Verdict = { class: 'soft', reason: judged.reason };
  const grounds = groundsOf(refused, judged);
  return { kind: 'deferred', facts, verdict, retryAt: retryAtOf(frame, judged, facts), grounds };
}

export function outcomeOfRoute(frame: AttemptFrame, route: Exclude<MailRoute, { kind: 'hosts' | 'trouble' }>): Outcome {
  const facts = (enhancedCode: string | null, text: string): AttemptFacts =>
    factsWithoutHost(frameFacts(frame), enhancedCode, text);
  switch (route.kind) {
    case 'refused':
      return { kind: 'refused', facts: facts(route.enhanced, route.text), verdict: routeVerdicts[route.reason] };
    case 'no_domain': {
      const noDomain = facts('4.1.2', 'DNS says that the domain does not exist');
      return {
        kind: 'deferred',
        facts: noDomain,
        verdict: { class: 'soft', reason: 'domain_not_found' },
        retryAt: frame.retryAt,
        noDomain: true,
      };
    }
  }
}

const routeVerdicts = {
  null_mx: { class: 'hard', reason: 'null_mx' },
  routing_loop: { class: 'undetermined', reason: 'routing_loop' },
  private_address: { class: 'undetermined', reason: 'network' },
  no_address: { class: 'undetermined', reason: 'network' },
} as const;

/** Returns the outcome of a mail that waits because something of ours is missing. */
export function waitForUs(frame: AttemptFrame, text: string): Outcome {
  return later(frame, { ...frameFacts(frame), ...noPlace, enhancedCode: HELD_BY_US, smtpReply: text }, 'other');
}

export function cannotBuild(frame: AttemptFrame, why: string): Outcome {
  return {
    kind: 'failed',
    facts: { ...frameFacts(frame), ...noPlace, smtpReply: why },
    reason: 'unbuildable',
    message: why,
  };
}

export function discarded(frame: AttemptFrame): Outcome {
  return {
    kind: 'accepted',
    facts: { ...frameFacts(frame), ...noPlace, smtpReply: 'discarded by delivery.routes' },
    viaRelay: true,
  };
}

const noPlace = { mx: null, ip: null, source: null, tls: null, timings: {}, smtpCode: null, enhancedCode: null };

/** Returns whether 552 means 452 (RFC 5321 section 4.5.3.1.10). */
const isTooManyRecipients = ({ phase, reply }: Extract<Transfer, { kind: 'refused' }>): boolean =>
  phase === 'rcpt' && reply.code === 552 && (reply.enhanced === '5.5.3' || /too many recipients/i.test(reply.text));

/** The server wants a login (RFC 4954 section 6) or TLS (RFC 3207 section 4) first. */
const SIGN_IN_FIRST = 530;

/** Returns whether a refusal is about the session: a smarthost wants a login or TLS, or a host TLS that was missing. The next try begins with TLS. */
const isAboutSession = ({ viaRelay }: AttemptFrame, { tls }: AttemptFacts, { code }: Refusal, { reason }: Judgement) =>
  (viaRelay && code === SIGN_IN_FIRST) || (tls === null && reason === 'tls_required');

function refusal(frame: AttemptFrame, facts: AttemptFacts, refused: Refusal): Outcome {
  const judged = judgeOf(frame)(refused);
  const verdict: Verdict = { class: judged.class, reason: judged.reason };
  const grounds = groundsOf(refused, judged);
  if (isAboutSession(frame, facts, refused, judged))
    return { kind: 'deferred', facts, verdict: { ...verdict, class: 'soft' }, retryAt: frame.retryAt, grounds };
  if (refused.code !== null && refused.code >= 500) return { kind: 'refused', facts, verdict, grounds };
  return { kind: 'deferred', facts, verdict, retryAt: retryAtOf(frame, judged, facts), grounds };
}

const judgeOf = (frame: AttemptFrame): Judge => frame.judge ?? judge;

function groundsOf(refused: Refusal, judged: Judgement): Grounds {
  const { rule, infrastructure, greylisting } = judged;
  return { rule, infrastructure, greylisting, about: subjectOf(refused, judged) };
}

function retryAtOf({ retryAt, retryWith }: AttemptFrame, { greylisting }: Judgement, facts: AttemptFacts): number {
  const hint: RetryHint = { greylisting, askedMs: askedPause(facts.smtpReply ?? '') };
  const isHinted = greylisting || hint.askedMs !== null;
  return isHinted ? (retryWith?.(hint) ?? retryAt) : retryAt;
}

function unsupported(
  facts: AttemptFacts,
  { what, limit, text: ownText }: Extract<Transfer, { kind: 'unsupported' }>,
): Outcome {
  const [enhancedCode, reason, words] = unsupportedWords[what];
  const text = ownText ?? words;
  const smtpReply = limit === null ? text : `${text} (it takes ${String(limit)} octets)`;
  return {
    kind: 'refused',
    facts: { ...facts, enhancedCode, smtpReply },
    verdict: { class: reason === 'message_too_large' ? 'soft' : 'undetermined', reason },
  };
}

const unsupportedWords = {
  size: ['5.3.4', 'message_too_large', 'the message is larger than the server takes'],
  smtputf8: ['5.6.7', 'other', 'the server does not take addresses beyond ASCII (SMTPUTF8)'],
  '8bitmime': ['5.6.3', 'other', 'the server takes only 7-bit mail'],
  requiretls: ['5.7.30', 'tls_required', 'the server does not promise to hand on over TLS only (REQUIRETLS)'],
} as const satisfies Record<string, readonly [string, BounceReason, string]>;

const later = (frame: AttemptFrame, facts: AttemptFacts, reason: BounceReason): Outcome => ({
  kind: 'deferred',
  facts,
  verdict: { class: 'soft', reason },
  retryAt: frame.retryAt,
});

const frameFacts = ({ startedAt, endedAt }: AttemptFrame): Pick<AttemptFacts, 'startedAt' | 'endedAt'> => ({
  startedAt,
  endedAt,
});

const replyParts = ({ code, enhanced, text }: SmtpReply): Pick<Refusal, 'code' | 'enhanced' | 'text'> => ({
  code,
  enhanced,
  text,
});

const replyFacts = (
  reply: SmtpReply | null,
  text: string | null,
): Pick<AttemptFacts, 'smtpCode' | 'enhancedCode' | 'smtpReply'> => ({
  smtpCode: reply?.code ?? null,
  enhancedCode: reply?.enhanced ?? null,
  smtpReply: reply?.text ?? text,
});

const tlsFacts = (tls: TlsResult | null): AttemptFacts['tls'] =>
  tls === null ? null : { protocol: tls.protocol, cipher: tls.cipher, verified: tls.verified, policy: tls.policy };

/** Rounds timings to a tenth of a millisecond. */
function rounded(timings: object): Record<string, number> {
  const short: Record<string, number> = {};
  for (const [phase, ms] of Object.entries(timings) as [string, number][]) short[phase] = Math.round(ms * 10) / 10;
  return short;
}

export type OutcomeAt = (frame: AttemptFrame) => Outcome;

/** Returns what a connection to this host needs, or why the host must not have the mail (RFC 8461 section 5). */
export function needOf(
  { relay, sts = null, stsFault = null, tls = null }: Site,
  host: Host,
  request: TlsRequest | null = null,
): ReturnType<typeof tlsNeed> {
  const stsMatches = sts !== null && stsNames(sts, host.name);
  return tlsNeed({
    override: relay === null ? tls : relay.tls,
    dane: host.dane ?? null,
    sts: sts === null || sts.mode === 'none' ? 'none' : sts.mode,
    stsMatches,
    stsFault,
    request,
    isVouched: relay !== null || stsMatches || host.isValidated === true,
  });
}

/** Returns the policy that decided about the TLS of an attempt at this host, whether TLS came about or not; null for none of the site's. */
export function policyAt(site: Site, mx: string | null, request: TlsRequest | null): PolicyName | null {
  const host = site.hosts.find(({ name }) => name === mx);
  if (host === undefined) return null;
  const asked = needOf(site, host, request);
  return asked.kind === 'need' ? asked.need.policy : asked.policy;
}

export const placeOfHost = ({ name }: Pick<Host, 'name'>, ip: string, source: string | null = null): Place => ({
  mx: name,
  ip,
  source,
});

export const noReachableAddress =
  (source: string | null = null): OutcomeAt =>
  (frame) =>
    outcomeOfDial(frame, placeOfHost({ name: '' }, '', source), unreachable);

/** The outcome of a host that was not dialled because a policy forbids it: mail that no later try could bring there bounces. */
export const forbiddenBy =
  ({ text, isFinal = false }: { text: string; isFinal?: boolean }, place: Place): OutcomeAt =>
  (frame) =>
    isFinal
      ? outcomeOfTransfer(frame, place, { ...requireTlsUnsupported, text })
      : outcomeOfDial(frame, place, failedBeforeDial('tls', text));

type Failed = Extract<OpenResult, { kind: 'failed' }>;

const failedBeforeDial = (phase: 'connect' | 'tls', text: string): Failed => ({
  kind: 'failed',
  ip: '',
  phase,
  reply: null,
  text,
  tlsBroken: false,
  tlsUnsatisfied: phase === 'tls',
  tls: null,
  timings: noTimings(),
});

const unreachable = failedBeforeDial('connect', 'no mail host has an address of a family that the source sends over');

const requireTlsUnsupported: Extract<Transfer, { kind: 'unsupported' }> = {
  kind: 'unsupported',
  what: 'requiretls',
  limit: null,
  timings: noTimings(),
  tls: null,
  earlier: 0,
};

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
