/** Notes each attempt: its line in the log, and what it says about the source, the TLS of the host and our own set-up. */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { LaneControl } from '../lanes/lane-state.ts';
import type { Ready } from '../prepare/prepare.ts';
import { laneName } from '../names.ts';
import type { Sources } from '../sources/sources.ts';
import type { HostTls } from '../tls/host-tls.ts';
import type { Job } from '../due-queue.ts';
import type { Passage } from './passages.ts';
import { createSetUpWarnings, type SetUpWarnings } from './set-up-warnings.ts';

export interface AttemptNotesDeps {
  clock: Clock;
  log: Log;
  sources: Pick<Sources, 'note'>;
  control: Pick<LaneControl, 'noteSourceChange'>;
  hostTls: Pick<HostTls, 'noteUse'>;
  /** Is called where the lane's limits may have changed. */
  pump(lane: string): void;
  /** Is called with the outcome of every attempt. */
  attempted?(outcome: Outcome): void;
}

export class AttemptNotes {
  private readonly deps: AttemptNotesDeps;
  private readonly warnings: SetUpWarnings;

  constructor(deps: AttemptNotesDeps) {
    this.deps = deps;
    this.warnings = createSetUpWarnings(deps);
  }

  note(job: Job, mail: Ready, destination: Passage['destination'], number: number, outcome: Outcome): void {
    const { deps } = this;
    const { facts } = outcome;
    const { source = null } = job;
    const lane = destination.kind === 'site' ? laneName(destination.name, source) : destination.kind;
    deps.attempted?.(outcome);
    deps.log.info(
      {
        event: 'attempt',
        message_id: mail.messageId,
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
        tls_policy: facts.tls?.policy ?? null,
        tls_verified: facts.tls?.verified ?? null,
        ms: facts.endedAt - facts.startedAt,
        timings: facts.timings,
        lane,
      },
      'delivery attempt',
    );
    if (destination.kind !== 'site') return;
    this.warnings.note(lane, outcome);
    const block = deps.sources.note(source, destination.name, outcome);
    if (block !== null) {
      deps.control.noteSourceChange(lane, `sends nothing until ${new Date(block.until).toISOString()}`, block.reply);
      deps.pump(lane);
    }
    const port = destination.hosts.find(({ name }) => name === facts.mx)?.port;
    if (outcome.kind === 'accepted' && port !== undefined && destination.relay === null && destination.tls !== 'none')
      deps.hostTls.noteUse(`${facts.mx ?? ''}:${String(port)}`, facts.tls !== null);
  }
}
