/**
 * Keeps the memory of this node in step with what other nodes change, beside events and due mail: limits, request rates, keys, complaints, and
 * received mail that a node left unread. Messages between nodes may be lost, so what has no age of its own is read again here.
 */
import type { Timer } from '../base/clock.ts';
import type { CountedElsewhere, RateWindows } from '../scheduling/rate-windows.ts';
import type { AppContext } from './context.ts';

/** Time between two looks, in milliseconds. */
const LOOK_MS = 2000;
const RATES = 'rates';

export interface SharedParts {
  mta: { complained(deliveryId: string): void; reread(): Promise<void> };
  accountWindows: Pick<RateWindows, 'add' | 'untold'>;
  inbound: { takeLeft(): void };
}

export interface SharedState {
  stop(): void;
}

/** Listens to the other nodes and looks every two seconds. On SQLite there are none, and only the listeners of this node are joined. */
export function shareState(context: AppContext, parts: SharedParts): SharedState {
  const { clock, log, nodes, notifiers, db } = context;
  const { mta, accountWindows, inbound } = parts;
  let timer: Timer | null = null;
  let isStopped = false;
  let isFailing = false;
  let servers = new Set<number>();

  const reported = (work: Promise<void>): void =>
    void work.then(
      () => {
        isFailing = false;
      },
      (err: unknown) => {
        // While the database is away every look fails: one line says so.
        if (!isFailing)
          log.error({ event: 'look_failed', err }, 'what other nodes have changed could not be read: tried again');
        isFailing = true;
      },
    );

  notifiers.complaints.listen((deliveryId) => mta.complained(deliveryId));
  nodes.listen((message) => {
    if (message?.about !== RATES || !Array.isArray(message.hint)) return;
    for (const counted of message.hint as CountedElsewhere[]) accountWindows.add(counted, clock.now());
  });

  /** Mails that a node received and had not read when it ended are read by the one that leads. */
  function noteEnded(): void {
    const now = new Set(nodes.list().flatMap(({ epoch, isCommand }) => (isCommand ? [] : [epoch])));
    const hasEnded = [...servers].some((epoch) => !now.has(epoch));
    servers = now;
    if (hasEnded && nodes.isLeader) inbound.takeLeft();
  }

  async function look(): Promise<void> {
    noteEnded();
    if (!nodes.hasOthers) return;
    const told = accountWindows.untold(clock.now());
    if (told.length > 0) nodes.tell({ about: RATES, hint: told });
    // Open answers of keys look whether these are still good.
    notifiers.keys.arrive();
    await mta.reread();
  }

  function plan(): void {
    if (isStopped) return;
    timer = clock.after(LOOK_MS, () => reported(look().finally(plan)), { background: true });
  }
  if (db.engine === 'postgres') plan();

  return {
    stop() {
      isStopped = true;
      timer?.cancel();
    },
  };
}
