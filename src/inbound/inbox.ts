/**
 * Stored mails that wait to be read (receive.ts, received.ts). Those with a token of ours come first; among others networks, or receiving domains,
 * take turns, so that none waits behind another's flood. After a crash, or a failure of ours, a mail whose meaning is not written is read again.
 * The node that received a mail reads it; the node that leads also reads what ended nodes have left.
 */
import { budgets, type BudgetName } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { mostForOne } from '../scheduling/allowance.ts';
import { WaitingLine } from '../scheduling/places.ts';
import type { Session } from './listener.ts';
import { Tally } from './mail-intake.ts';
import type { Stranger } from './mx-budgets.ts';

/** A mail that waits; `mail` is null if it has to be loaded. */
interface Waiting<Mail> extends Stranger {
  id: string;
  mail: Mail | null;
}

interface InboxOptions<Mail> {
  /** The budgets for all mails that wait, and for those of one network or domain. */
  bounds: { all: BudgetName; each: BudgetName };
  /** Bytes of mails that are kept in memory until they are read; others are loaded. */
  mostBuffered: number;
  /** Mails that are read or written at once: their writes share commits, and look-ups take time. */
  mostAtWork: number;
  /** Mails with a token that may be with the reader at once. One without a token is there alone. */
  mostReading: number;
  /** Makes a mail of what a session has brought. */
  mailOf(session: Session<never>, raw: Buffer, size: number, stranger: Stranger): Mail;
  /** Writes it to the database. */
  write(mail: Mail, stranger: Stranger): Promise<void>;
  /** Returns a budget of the database that one more mail of this sender would break, or null. */
  alsoFull(stranger: Stranger): Promise<BudgetName | null>;
  /** Returns the mails in the database that were not read. */
  left(): Promise<readonly (Stranger & { id: string })[]>;
  load(id: string): Promise<Mail | null>;
  /** Reads a mail. Resolves with the act that writes what it means. Rejects, as that does, for a failure of ours. */
  read(mail: Mail, stranger: Stranger): Promise<() => Promise<unknown>>;
  failed(error: unknown): void;
}

/** Mails that wait, by network or domain, and those that are being written. */
class Line<Item> extends WaitingLine<Item> {
  readonly coming = new Tally();
}

/** Pause of all reading after a failure of ours. Each try to start a process costs a tenth of a second of CPU. */
const REST_MS = 10_000;

export class Inbox<Mail extends { id: string; raw: Uint8Array }> {
  private readonly clock: Clock;
  private readonly options: InboxOptions<Mail>;
  private readonly withToken = new Line<Waiting<Mail>>();
  private readonly loose = new Line<Waiting<Mail>>();
  /** The ids of the mails that wait or are at work. */
  private readonly known = new Set<string>();
  private readonly working = new Set<Promise<void>>();
  private reading = 0;
  private bufferedBytes = 0;
  /** True if the database may have mails that are not known here. */
  private hasLeft = false;
  private isResting = false;
  private isStopping = false;

  constructor({ clock }: { clock: Clock }, options: InboxOptions<Mail>) {
    this.clock = clock;
    this.options = options;
  }

  /** Returns the budget that one more mail of this sender would break, or null. */
  async full(stranger: Stranger): Promise<BudgetName | null> {
    return this.fullLine(stranger) ?? this.options.alsoFull(stranger);
  }

  /** The same for what waits to be read. */
  fullLine(stranger: Stranger): BudgetName | null {
    const { all, each } = this.options.bounds;
    const line = this.lineOf(stranger);
    const [most, mostOfOne] = [budgets[all].most, budgets[each].most];
    const share = shareOf(stranger);
    const wanted = line.of(share) + line.coming.of(share) + 1;
    const used = line.all + line.coming.total;
    if (wanted > mostOfOne) return each;
    return used >= most || wanted > mostForOne(mostOfOne, most, used) ? all : null;
  }

  /** Writes a mail, which counts as waiting meanwhile, and has it read soon. Resolves with its id. */
  async store(session: Session<never>, raw: Buffer, size: number, stranger: Stranger): Promise<string> {
    const mail = this.options.mailOf(session, raw, size, stranger);
    const { coming } = this.lineOf(stranger);
    coming.add(shareOf(stranger), 1);
    try {
      await this.options.write(mail, stranger);
    } finally {
      coming.add(shareOf(stranger), -1);
    }
    this.take(mail, stranger);
    return mail.id;
  }

  take(mail: Mail, stranger: Stranger): void {
    const isBuffered = this.bufferedBytes + mail.raw.length <= this.options.mostBuffered;
    if (isBuffered) this.bufferedBytes += mail.raw.length;
    this.add({ id: mail.id, mail: isBuffered ? mail : null, ...stranger });
    this.work();
  }

  /** Takes the mails that ended nodes, or an earlier run, have left. One that a living node is about to read is read twice then, and has its effect once. */
  takeLeft(): void {
    this.hasLeft = true;
    this.work();
  }

  /** Resolves when the mails at work are done. */
  async stop(): Promise<void> {
    this.isStopping = true;
    while (this.working.size > 0) await Promise.all(this.working);
  }

  private lineOf({ deliveryId }: Stranger): Line<Waiting<Mail>> {
    return deliveryId === null ? this.loose : this.withToken;
  }

  private add(waiting: Waiting<Mail>): void {
    this.known.add(waiting.id);
    this.lineOf(waiting).add(shareOf(waiting), waiting);
  }

  private work(): void {
    if (this.isStopping || this.isResting) return;
    const { mostAtWork, mostReading } = this.options;
    if (this.hasLeft) this.track(this.loadLeft());
    while (this.reading < mostReading && this.working.size < mostAtWork) {
      const next = this.withToken.next() ?? (this.reading > 0 ? undefined : this.loose.next());
      if (next === undefined) return;
      this.track(this.receive(next.item));
    }
  }

  private async loadLeft(): Promise<void> {
    this.hasLeft = false;
    try {
      for (const one of await this.options.left()) if (!this.known.has(one.id)) this.add({ ...one, mail: null });
    } catch (error) {
      this.hasLeft = true;
      this.rest(error);
    }
  }

  private track(act: Promise<void>): void {
    this.working.add(act);
    void act.finally(() => {
      this.working.delete(act);
      this.work();
    });
  }

  private async receive(next: Waiting<Mail>): Promise<void> {
    try {
      const write = await this.read(next);
      this.work();
      await write?.();
      this.known.delete(next.id);
    } catch (error) {
      this.lineOf(next).add(shareOf(next), next);
      this.rest(error);
    }
  }

  /** Returns null if the mail is gone. It is not kept in memory while its meaning is written. */
  private async read(next: Waiting<Mail>): Promise<(() => Promise<unknown>) | null> {
    const { options } = this;
    const { mail } = next;
    this.reading += 1;
    try {
      const loaded = mail ?? (await options.load(next.id));
      return loaded === null ? null : await options.read(loaded, next);
    } finally {
      this.reading -= 1;
      if (mail !== null) this.bufferedBytes -= mail.raw.length;
      next.mail = null;
    }
  }

  private rest(error: unknown): void {
    if (this.isResting || this.isStopping) return;
    this.isResting = true;
    this.options.failed(error);
    const end = (): void => {
      this.isResting = false;
      this.work();
    };
    this.clock.after(REST_MS, end, { background: true });
  }
}

const shareOf = ({ network, receiving }: Stranger): string => receiving?.name ?? network;
