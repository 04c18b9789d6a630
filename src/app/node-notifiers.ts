/** Joins the notifiers of this server with those of the other nodes. */
import type { Nodes } from '../storage/nodes.ts';

/** A notifier of any hint: hints of other nodes come from the notifier with the same name. */
interface JoinableNotifier {
  arrive(hint: unknown): void;
  joinOthers(tell: (hint: unknown) => void): void;
}

/** Notifiers that carry no hint: ringing them once too often only costs a look. */
const WITHOUT_HINT: readonly string[] = ['events', 'keys', 'holds'];

/**
 * From now on what one node's notifier is told reaches the listeners of all. When messages may have been lost, notifiers without hints are
 * rung; what the others would have told is found by the sweeper.
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
