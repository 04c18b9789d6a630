/**
 * The mails that the workers of a lane make ready, from a job to the wire:
 *
 *   begin ─▶ looking ─▶ ready ─▶ sending           by the worker that sends it next
 *   offer ─▶ looking ─▶ ready ─▶ own ─▶ sending    by a busy worker, for its next turn
 *               │         └─ begin ─▶ sending        by a free worker, which takes it over as it is
 *               └─ begin ─▶ looking ...              or while it is still looked at
 *
 * A mail that is offered belongs to no worker. Composing and signing cost more than all else that is done for a mail, so a
 * worker that takes it over goes on with what was made. `make` must not reject.
 */
import type { Clock } from '../base/clock.ts';

export class PreparedMail<Job, Mail> {
  readonly job: Job;
  /** Resolves when it is known whether the mail may be sent now. Its bytes are still being made then, unless it is large. */
  readonly made: Promise<Mail>;
  isMade = false;
  /** On the monotonic clock, in ms. */
  readonly begunAt: number;

  constructor(job: Job, made: Promise<Mail>, begunAt: number) {
    this.job = job;
    this.made = made;
    this.begunAt = begunAt;
    void made.then(() => {
      this.isMade = true;
    });
  }
}

export class PreparedMails<Job extends object, Mail> {
  private readonly clock: Pick<Clock, 'monotonic'>;
  private readonly make: (job: Job) => Promise<Mail>;
  private readonly offered = new WeakMap<Job, PreparedMail<Job, Mail>>();

  constructor(clock: Pick<Clock, 'monotonic'>, make: (job: Job) => Promise<Mail>) {
    this.clock = clock;
    this.make = make;
  }

  /** Makes the mail of a job for the worker that calls; a mail that is offered is taken over. */
  begin(job: Job): PreparedMail<Job, Mail> {
    const offered = this.offered.get(job);
    if (offered === undefined) return new PreparedMail(job, this.make(job), this.clock.monotonic());
    this.offered.delete(job);
    return offered;
  }

  /** Makes the mail of a job that its worker has prefetched, and offers it to the other workers. */
  offer(job: Job): PreparedMail<Job, Mail> {
    const mail = this.begin(job);
    this.offered.set(job, mail);
    return mail;
  }

  /** Forgets the mail of a job that may not go now: what it was counted against is given back, and it is made again at its turn. */
  drop(job: Job): void {
    this.offered.delete(job);
  }

  /** Offers the mail no longer: the worker that made it sends it or drops it. */
  own(mail: PreparedMail<Job, Mail>): void {
    if (this.offered.get(mail.job) === mail) this.offered.delete(mail.job);
  }
}
