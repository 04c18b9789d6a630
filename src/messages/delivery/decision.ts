/** A decision of decide() and the three ways to build one: nothing changes, the state changes, the status changes. */
import type { SuppressionReason } from '../../storage/tables.ts';
import type { AttemptFacts, DeliveryState, DeliveryStatus, Verdict } from './delivery.ts';

/** An event to write: its type, and the object that the API shows under the name of the type. */
export interface DecidedEvent {
  type: string;
  detail: Readonly<Record<string, unknown>>;
  /** True for an open or click by a machine. */
  machine?: boolean;
}

export interface DecidedAttempt {
  facts: AttemptFacts;
  outcome: 'accepted' | 'deferred' | 'refused' | 'uncertain';
  verdict: Verdict | null;
  nextAttemptAt: number | null;
}

export interface Decision {
  /** False if the change is not allowed in this status: only the attempt is written, if there was one. */
  applied: boolean;
  state: DeliveryState;
  /** The changes of status, in order, for the books: `[from, to]`. */
  steps: readonly (readonly [DeliveryStatus, DeliveryStatus])[];
  events: readonly DecidedEvent[];
  attempt: DecidedAttempt | null;
  suppress: SuppressionReason | null;
}

const final: ReadonlySet<DeliveryStatus> = new Set([
  'delivered',
  'bounced',
  'complained',
  'suppressed',
  'failed',
  'canceled',
]);

/** Returns whether the delivery is not finished. */
export const isWaiting = (status: DeliveryStatus): boolean => !final.has(status);

/** Decides that the change has no effect. */
export const ignoreChange = (state: DeliveryState): Decision => ({
  applied: false,
  state,
  steps: [],
  events: [],
  attempt: null,
  suppress: null,
});

/** Changes the state within its status. */
export const updateState = (state: DeliveryState, change: Partial<DeliveryState>): Decision => ({
  ...ignoreChange(state),
  applied: true,
  state: { ...state, ...change },
});

/** Moves the delivery to `status`. A finished delivery has no due time, no claim and no hold. */
export function moveToStatus(
  state: DeliveryState,
  status: DeliveryStatus,
  rest: Partial<Omit<Decision, 'state'>> & { change?: Partial<DeliveryState> } = {},
): Decision {
  const { change, ...others } = rest;
  const ended = final.has(status) ? { dueAt: null, claimEpoch: null, heldBy: null, heldAt: null } : {};
  return {
    ...ignoreChange(state),
    applied: true,
    state: { ...state, ...ended, ...change, status },
    steps: stepsBetween(state.status, status),
    ...others,
  };
}

/** Scheduled mail passes through `queued` when its time has come, so that the books show only the documented changes. */
function stepsBetween(from: DeliveryStatus, status: DeliveryStatus): Decision['steps'] {
  if (from === status) return [];
  if (from !== 'scheduled' || status === 'queued' || status === 'canceled' || status === 'suppressed')
    return [[from, status]];
  return [
    [from, 'queued'],
    ['queued', status],
  ];
}

/** Limits a reply to the 1,000 characters that attempts, deliveries and events keep. */
export const capped = (reply: string | null): string | null => cutOrNull(reply, 1000);
export const cutOrNull = (text: string | null, most: number): string | null => (text === null ? null : cut(text, most));

/** Returns the first `most` characters, without half a surrogate pair at the end. */
export const cut = (text: string, most: number): string =>
  text.length <= most ? text : text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
