/** Decides what TLS a connection to a host needs, and what happens to mail that a policy keeps from the host. Pure. */
import { stsNames } from '../../mail/sts-policy.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { OpenResult } from '../connection/open-session.ts';
import { noTimings } from '../connection/phases.ts';
import type { Transfer } from '../connection/session.ts';
import { tlsNeed, type PolicyName, type TlsRequest } from '../connection/tls-policy.ts';
import type { Host, Site } from '../sites/sites.ts';
import { outcomeOfDial, outcomeOfTransfer, type AttemptFrame, type Place } from './outcome.ts';

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

/** The outcome if none of the hosts has an address that the source can reach. */
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
