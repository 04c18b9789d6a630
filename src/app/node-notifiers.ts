/** Joins the notifiers of this server with those of the other nodes. */
import type { Nodes } from '../storage/nodes.ts';

/** A notifier of any hint: hints of other nodes come from the notifier with the same name. */
interface JoinableNotifier {
  arrive(hint: unknown): void;
  joinOthers(tell: (hint: unknown) => void): void;
}

/** Notifiers without hints: one notification too many only costs a query. */
const WITHOUT_HINT: readonly string[] = ['events', 'keys', 'holds'];

/**
 * From now on a notification of one node reaches the listeners of all. If messages between nodes may have been lost, the listeners of
 * notifiers without hints are called; what hints would have said is found by the sweeper.
 */
export function joinNotifiers(
  nodes: Pick<Nodes, 'tell' | 'listen'>,
  notifiers: Readonly<Record<string, JoinableNotifier>>,
): void {
  for (const [about, notifier] of Object.entries(notifiers))
    notifier.joinOthers((hint) => nodes.tell({ about, hint: hint ?? null }));
  nodes.listen((message) => {
    if (message === null) {
      for (const about of WITHOUT_HINT) notifiers[about]?.arrive(undefined);
      // Null stands for any endpoint: nothing else finds one that was changed.
      notifiers['webhooks']?.arrive(null);
    } else if (message.hint !== null) notifiers[message.about]?.arrive(message.hint);
    else if (WITHOUT_HINT.includes(message.about)) notifiers[message.about]?.arrive(undefined);
  });
}
