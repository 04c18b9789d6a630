/**
 * Checks whether a sender may send a draft: the sender's domain (verified, and allowed for the key), the stream, the
 * suppression list. A bulk send looks up each different sender, stream and domain once.
 */
import { Problem } from '../../base/problem.ts';
import { capital } from '../../domains/lost-records.ts';
import { addressKey, type Mailbox } from '../../mail/address.ts';
import type { SuppressionReason } from '../../storage/tables.ts';
import type { BulkDraft, MessageDraft } from '../request/send-request.ts';
import type { TrackingRule } from '../request/tracking-rule.ts';

export interface MaySendDeps {
  findStream: (accountId: string, slug: string) => Promise<{ priority: number; paused: number; type?: string } | null>;
  /** Returns the tracking of mail that does not set it, and the address that links lead to. */
  trackingRule(accountId: string, domain: string): Promise<TrackingRule>;
  isVerified(accountId: string, domain: string): Promise<boolean>;
  /** Returns why a domain that was verified before is refused now, or null. */
  whyRefused?(accountId: string, domain: string): Promise<string | null>;
  /** Returns which of these addresses must not get mail of this stream. */
  findSuppressed(
    accountId: string,
    stream: string,
    addressKeys: readonly string[],
  ): Promise<ReadonlyMap<string, { id: string; reason: SuppressionReason }>>;
  simulatorDomain: string;
}

export interface Sender {
  accountId: string;
  keyId: string | null;
  mode: 'live' | 'test';
  /** Name of the account's plan; absent for the operator, who has no quota. */
  plan?: string;
  /** The operator has paused the account's sending. */
  paused?: boolean;
  /** Sending domains that the key is restricted to; empty means all of the account. */
  domains: readonly string[];
  requestId: string | null;
}

/** The stream of mail that names none. */
export const DEFAULT_STREAM = 'transactional';

type Simulator = Pick<MaySendDeps, 'simulatorDomain'>;

export const isSimulatedAddress = (deps: Simulator, { domain }: Mailbox): boolean => domain === deps.simulatorDomain;

/** Returns whether no recipient is ever dialled. */
export function isSimulated(deps: Simulator, sender: Sender, draft: MessageDraft): boolean {
  if (sender.mode === 'test' || draft.test !== null) return true;
  return everyRecipient(draft).every(({ mailbox }) => isSimulatedAddress(deps, mailbox));
}

/** Returns all recipients, each address once. */
export function everyRecipient(draft: MessageDraft): { type: 'to' | 'cc' | 'bcc'; mailbox: Mailbox }[] {
  // Nearly all mail has one recipient, and bulk sends ask this three times for each.
  if (draft.source === undefined && draft.cc.length === 0 && draft.bcc.length === 0)
    return [{ type: 'to', mailbox: draft.to }];
  const seen = new Set<string>();
  const all = draft.source?.recipients ?? [
    { type: 'to' as const, mailbox: draft.to },
    ...draft.cc.map((mailbox) => ({ type: 'cc' as const, mailbox })),
    ...draft.bcc.map((mailbox) => ({ type: 'bcc' as const, mailbox })),
  ];
  // An address in two fields gets one copy, for the first of them.
  return all.filter(({ mailbox }) => {
    const key = addressKey(mailbox.address);
    return seen.has(key) ? false : seen.add(key);
  });
}

/** Throws the problem if the sender may not send from the draft's domain. */
export async function checkSender(
  deps: MaySendDeps,
  sender: Sender,
  draft: MessageDraft,
  simulated: boolean,
): Promise<void> {
  const { domain } = draft.from;
  if (sender.paused === true)
    throw new Problem('sending_paused', 'Sending is paused for this account. Ask the operator to resume it.');
  if (sender.domains.length > 0 && !sender.domains.includes(domain)) {
    throw new Problem(
      'domain_not_allowed',
      `This key may send only from ${sender.domains.join(', ')}, not from ${domain}.`,
      { field: 'from' },
    );
  }
  if (sender.mode === 'test' || (simulated && domain === deps.simulatorDomain)) return;
  if (await deps.isVerified(sender.accountId, domain)) return;
  const why = (await deps.whyRefused?.(sender.accountId, domain)) ?? null;
  throw new Problem(
    'domain_not_verified',
    why === null
      ? `${domain} is not a verified domain of this account. Add it, publish its DNS records and verify it.`
      : `${capital(why)}.`,
    { field: 'from' },
  );
}

export interface Stream {
  slug: string;
  class: number;
  isBroadcast: boolean;
}

/** Returns the draft's stream. Throws `unknown_stream` or `sending_paused`. */
export async function checkStream(deps: MaySendDeps, sender: Sender, draft: MessageDraft): Promise<Stream> {
  const stream = await findStream(deps, sender, draft);
  refusePaused(stream, draft);
  return stream;
}

/** Finds the stream. Throws `unknown_stream`. */
export async function findStream(deps: MaySendDeps, sender: Sender, draft: MessageDraft): Promise<FoundStream> {
  const slug = draft.stream ?? DEFAULT_STREAM;
  const stream = await deps.findStream(sender.accountId, slug);
  if (stream === null)
    throw new Problem(
      'unknown_stream',
      `There is no stream ${JSON.stringify(slug)}. Use \`transactional\`, \`broadcast\` or a stream that you have created.`,
      { field: 'stream' },
    );
  return {
    slug,
    class: stream.priority,
    isBroadcast: stream.type === 'broadcast',
    isPaused: stream.paused === 1,
  };
}

/** Throws `sending_paused` for a stream that takes no mail now. */
export function refusePaused({ slug, isPaused }: FoundStream, draft: MessageDraft): void {
  if (isPaused)
    throw new Problem('sending_paused', `The stream ${slug} is paused. Resume it, or use another stream.`, {
      field: draft.stream === null ? null : 'stream',
    });
}

export type FoundStream = Stream & { isPaused: boolean };

/** The results of checking the entries of a bulk send. */
export interface CheckedEntries {
  streams: Map<string, Stream>;
  rules: Map<string, TrackingRule>;
  /** Faults in an entry's own `from` or `stream`, by its index. */
  faulty: Map<number, Problem>;
}

/**
 * Checks sender, stream and tracking of all entries, each different one once. A fault in a shared member refuses the whole
 * request; a fault in an entry's own member refuses that entry.
 */
export async function checkAll(
  deps: MaySendDeps,
  sender: Sender,
  entries: readonly GoodEntry[],
): Promise<CheckedEntries> {
  const { streams, rules, faulty }: CheckedEntries = { streams: new Map(), rules: new Map(), faulty: new Map() };
  const senders = new Map<string, Problem | null>();
  const refused = new Map<string, Problem>();
  for (const entry of entries) {
    const { draft } = entry;
    const { domain } = draft.from;
    const simulated = isSimulated(deps, sender, draft);
    const from = `${domain} ${String(simulated)}`;
    const slug = draft.stream ?? DEFAULT_STREAM;
    if (!senders.has(from)) senders.set(from, await problemFrom(checkSender(deps, sender, draft, simulated)));
    if (!streams.has(slug) && !refused.has(slug)) {
      const stream = await resultOrProblem(checkStream(deps, sender, draft));
      if (stream instanceof Problem) refused.set(slug, stream);
      else streams.set(slug, stream);
    }
    const noStream = refused.get(slug);
    // As for a single mail: what is wrong in the request goes before what is not allowed now.
    const fault = noStream?.code === 'unknown_stream' ? noStream : (senders.get(from) ?? noStream);
    if (fault != null) {
      if (!isOwn(entry, fault)) throw fault;
      faulty.set(entry.index, problemOfEntry(fault, entry.index));
      continue;
    }
    if (!rules.has(domain)) rules.set(domain, await deps.trackingRule(sender.accountId, domain));
  }
  return { streams, rules, faulty };
}

type GoodEntry = Extract<BulkDraft['entries'][number], { kind: 'ok' }>;

/** Returns whether the fault is in a member that the entry itself sets. */
const isOwn = ({ own }: GoodEntry, { field }: Problem): boolean => field !== null && own?.includes(field) === true;

async function resultOrProblem<T>(checking: Promise<T>): Promise<T | Problem> {
  try {
    return await checking;
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
}

async function problemFrom(checking: Promise<void>): Promise<Problem | null> {
  const result = await resultOrProblem(checking);
  return result instanceof Problem ? result : null;
}

/** Suppressed addresses by their key. */
export type Suppressed = ReadonlyMap<string, { id: string; reason: SuppressionReason }>;

/** Returns which recipients of these drafts are suppressed on the stream; simulated ones never are. */
export function suppressedOf(
  deps: MaySendDeps,
  sender: Sender,
  stream: string,
  drafts: readonly MessageDraft[],
): Promise<Suppressed> {
  const keys = new Set<string>();
  for (const draft of drafts) {
    if (sender.mode === 'test' || draft.test !== null) continue;
    for (const { mailbox } of everyRecipient(draft))
      if (!isSimulatedAddress(deps, mailbox)) keys.add(addressKey(mailbox.address));
  }
  return keys.size === 0 ? Promise.resolve(new Map()) : deps.findSuppressed(sender.accountId, stream, [...keys]);
}

export async function suppressedByStream(
  deps: MaySendDeps,
  sender: Sender,
  drafts: readonly MessageDraft[],
  streams: ReadonlyMap<string, Stream>,
): Promise<Map<string, Suppressed>> {
  const found = new Map<string, Suppressed>();
  for (const slug of streams.keys()) {
    const own = drafts.filter((draft) => (draft.stream ?? DEFAULT_STREAM) === slug);
    found.set(slug, await suppressedOf(deps, sender, slug, own));
  }
  return found;
}

/** Throws `recipient_suppressed` if the draft asks for that and a recipient is suppressed. */
export function refuseSuppressed(draft: MessageDraft, suppressed: Suppressed): void {
  if (draft.onSuppressed !== 'reject') return;
  const hit = everyRecipient(draft).find(({ mailbox }) => suppressed.has(addressKey(mailbox.address)));
  if (hit === undefined) return;
  const reason = suppressed.get(addressKey(hit.mailbox.address))?.reason ?? 'manual';
  throw new Problem(
    'recipient_suppressed',
    `${hit.mailbox.address} is on the suppression list (${reason}). Leave it out, or remove it from the list.`,
    {
      field: fieldOf(draft, hit),
    },
  );
}

/** Returns the field of a recipient. A single copy may have been given as a string, so it has no index. */
function fieldOf(draft: MessageDraft, { type, mailbox }: ReturnType<typeof everyRecipient>[number]): string {
  const place = type === 'to' || draft[type].length < 2 ? -1 : draft[type].indexOf(mailbox);
  return place === -1 ? type : `${type}[${String(place)}]`;
}

/** Returns the problem with its field named from the top of a bulk request. */
export const problemOfEntry = (problem: Problem, index: number): Problem =>
  new Problem(problem.code, problem.message, { field: `recipients[${String(index)}].${problem.field ?? 'to'}` });
