/** Notes each attempt: its line in the log, and what it says about the source, the TLS of the host and our own set-up. */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { MINUTE_MS } from '../../base/time.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { Ready } from '../prepare/prepare.ts';
import { laneName } from '../names.ts';
import type { Sources } from '../sources/sources.ts';
import type { HostTls } from '../tls/host-tls.ts';
import type { Job } from '../due-queue.ts';
import { policyAt } from './host-policy.ts';
import type { Passage } from './passages.ts';

export interface AttemptNotesDeps {
  clock: Clock;
  log: Log;
  sources: Pick<Sources, 'note'>;
  hostTls: Pick<HostTls, 'noteUse'>;
  /** Is called with the outcome of every attempt, and the kind of what it was made at. */
  attempted?(outcome: Outcome, destination: Passage['destination']['kind']): void;
}

const QUIET_MS = 10 * MINUTE_MS;
const MOST_REMEMBERED = 1_000;

export class AttemptNotes {
  private readonly deps: AttemptNotesDeps;
  private readonly warnOfSetUp: ReturnType<typeof createSetUpWarnings>;

  constructor(deps: AttemptNotesDeps) {
    this.deps = deps;
    this.warnOfSetUp = createSetUpWarnings(deps);
  }

  note(job: Job, mail: Ready, destination: Passage['destination'], number: number, outcome: Outcome): void {
    const { deps } = this;
    const { facts } = outcome;
    const { source = null } = job;
    const lane = destination.kind === 'site' ? laneName(destination.name, source) : destination.kind;
    deps.attempted?.(outcome, destination.kind);
    deps.log.info(
      {
        event: 'attempt',
        message_id: mail.messageId,
        request_id: mail.requestId,
        // The name of the views. `delivery_id` is that of earlier versions, and stays.
        recipient_id: job.id,
        delivery_id: job.id,
        domain: job.domain,
        attempt: number,
        outcome: outcome.kind,
        host: facts.mx,
        ip: facts.ip,
        source: facts.source,
        code: facts.smtpCode,
        enhanced: facts.enhancedCode,
        text: facts.smtpReply,
        rule: 'grounds' in outcome ? outcome.grounds.rule : null,
        about: 'grounds' in outcome ? outcome.grounds.about : null,
        tls: facts.tls?.protocol ?? null,
        tls_policy: facts.tls?.policy ?? policyOf(destination, facts.mx, mail),
        tls_verified: facts.tls?.verified ?? null,
        ms: facts.endedAt - facts.startedAt,
        timings: facts.timings,
        lane,
      },
      'delivery attempt',
    );
    if (destination.kind !== 'site') return;
    this.warnOfSetUp(lane, outcome);
    deps.sources.note(source, destination.name, outcome);
    const port = destination.hosts.find(({ name }) => name === facts.mx)?.port;
    if (outcome.kind === 'accepted' && port !== undefined && destination.relay === null && destination.tls !== 'none')
      deps.hostTls.noteUse(`${facts.mx ?? ''}:${String(port)}`, facts.tls !== null);
  }
}

/** Plaintext has a policy, too: one that allows it, or one that kept the mail from the host. */
const policyOf = (
  destination: Passage['destination'],
  mx: string | null,
  { tlsRequest = null }: Ready,
): string | null => (destination.kind === 'site' ? policyAt(destination, mx, tlsRequest) : null);

/**
 * Refusals that are about our own set-up (a block list, a missing PTR record, a signature that does not verify) bounce mail
 * of customers who can do nothing about it. Returns a function that warns the operator, once for each lane and rule in ten minutes.
 */
export function createSetUpWarnings({
  clock,
  log,
}: {
  clock: Clock;
  log: Log;
}): (lane: string, outcome: Outcome) => void {
  const logged = new LRUCache<string, { at: number; since: number }>({ max: MOST_REMEMBERED });
  return (lane, outcome) => {
    if ((outcome.kind !== 'refused' && outcome.kind !== 'deferred') || outcome.grounds?.infrastructure !== true) return;
    const { facts, verdict, grounds } = outcome;
    const key = `${lane} ${grounds.rule}`;
    const before = logged.get(key);
    if (before !== undefined && clock.now() - before.at < QUIET_MS) {
      before.since++;
      return;
    }
    logged.set(key, { at: clock.now(), since: 0 });
    log.warn(
      {
        event: 'infrastructure_bounce',
        lane,
        host: facts.mx,
        source: facts.source,
        code: facts.smtpCode,
        enhanced: facts.enhancedCode,
        text: facts.smtpReply,
        reason: verdict.reason,
        rule: grounds.rule,
        unreported: before?.since ?? 0,
      },
      'mail is refused for reasons of our own set-up',
    );
  };
}
