/**
 * Checks whether a sender may send a draft: the sender's domain (verified, and allowed for the key), the stream, the
 * suppression list. A bulk send looks up each different sender, stream and domain once.
 */
import { Problem } from '../../base/problem.ts';
import { capital } from '../../domains/lost-records.ts';
import { addressKey, type Mailbox } from '../../mail/address.ts';
import type { Suppressed, SuppressionQuestion } from '../../suppressions/suppression-store.ts';
import type { BulkDraft, MessageDraft } from '../request/send-request.ts';
import type { TrackingRule } from '../request/tracking-rule.ts';
import { hostedUnsubscribe, refuseListHeaders, type Unsubscribe } from '../request/unsubscribe.ts';

export interface MaySendDeps {
  findStream: (accountId: string, slug: string) => Promise<{ priority: number; paused: number; type?: string } | null>;
  /** Returns the tracking of mail that does not set it, and the address that links lead to. */
  trackingRule(accountId: string, domain: string): Promise<TrackingRule>;
  isVerified(accountId: string, domain: string): Promise<boolean>;
  /** Returns why a domain that was verified before is refused now, or null. */
  whyRefused?(accountId: string, domain: string): Promise<string | null>;
  findSuppressed(questions: readonly SuppressionQuestion[]): Promise<Suppressed[]>;
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

export const DEFAULT_STREAM = 'transactional';

const slugOf = ({ stream }: MessageDraft): string => stream ?? DEFAULT_STREAM;

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
async function checkSender(deps: MaySendDeps, sender: Sender, draft: MessageDraft, simulated: boolean): Promise<null> {
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
  if (sender.mode === 'test' || (simulated && domain === deps.simulatorDomain)) return null;
  if (await deps.isVerified(sender.accountId, domain)) return null;
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
async function findStream(deps: MaySendDeps, sender: Sender, draft: MessageDraft): Promise<Stream> {
  const slug = slugOf(draft);
  const stream = await deps.findStream(sender.accountId, slug);
  if (stream === null)
    throw new Problem(
      'unknown_stream',
      `There is no stream ${JSON.stringify(slug)}. Use \`transactional\`, \`broadcast\` or a stream that you have created.`,
      { field: 'stream' },
    );
  if (stream.paused === 1)
    throw new Problem('sending_paused', `The stream ${slug} is paused. Resume it, or use another stream.`, {
      field: draft.stream === null ? null : 'stream',
    });
  return { slug, class: stream.priority, isBroadcast: stream.type === 'broadcast' };
}

/** The results of looking up what the drafts of a request need, each different thing once. */
export interface LookedUp {
  streams: ReadonlyMap<string, Stream>;
  rules: ReadonlyMap<string, TrackingRule>;
  /** Drafts by stream. */
  drafts: ReadonlyMap<string, readonly MessageDraft[]>;
  /** Suppressed recipients by stream, which the caller fills in as far as it has asked. */
  suppressed: Map<string, Suppressed>;
  /** Faults in an entry's own `from` or `stream`, by its index. */
  faulty: ReadonlyMap<number, Problem>;
}

/**
 * Checks sender and stream of each entry, and looks up the rest. A fault in a shared member refuses the whole request, as it does for a
 * single mail, which is one entry; a fault in an entry's own member refuses that entry.
 */
export async function lookUp(deps: MaySendDeps, sender: Sender, entries: readonly GoodEntry[]): Promise<LookedUp> {
  const streams = new Map<string, Stream>();
  const rules = new Map<string, TrackingRule>();
  const faulty = new Map<number, Problem>();
  const drafts = new Map<string, MessageDraft[]>();
  const answers = new Map<string, Stream | Problem>();
  const senders = new Map<string, Problem | null>();
  for (const entry of entries) {
    const { draft } = entry;
    const { domain } = draft.from;
    const slug = slugOf(draft);
    const simulated = isSimulated(deps, sender, draft);
    const from = `${domain} ${String(simulated)}`;
    if (!senders.has(from)) senders.set(from, await resultOrProblem(checkSender(deps, sender, draft, simulated)));
    const refused = senders.get(from) ?? null;
    const stream = answers.get(slug) ?? (await resultOrProblem(findStream(deps, sender, draft)));
    answers.set(slug, stream);
    // A fault of the request goes before what is not allowed now.
    const isUnknown = stream instanceof Problem && stream.code === 'unknown_stream';
    const fault = refused === null || isUnknown ? stream : refused;
    if (!(fault instanceof Problem)) {
      streams.set(slug, fault);
      const others = drafts.get(slug);
      if (others === undefined) drafts.set(slug, [draft]);
      else others.push(draft);
      if (!rules.has(domain)) rules.set(domain, await deps.trackingRule(sender.accountId, domain));
    } else if (isOwn(entry, fault)) faulty.set(entry.index, fault);
    else throw fault;
  }
  return { streams, rules, drafts, suppressed: new Map(), faulty };
}

/** Returns what was looked up for this draft. Throws the Problem that refuses it by itself: a recipient that is suppressed, a header. */
export function knownOf(draft: MessageDraft, { streams, rules, suppressed }: LookedUp) {
  const slug = slugOf(draft);
  const [stream, tracking, hits = NO_HITS] = [streams.get(slug), rules.get(draft.from.domain), suppressed.get(slug)];
  if (stream === undefined || tracking === undefined) throw new Error(`${slug} or its sender was not looked up`);
  unsubscribeOf(draft, stream);
  refuseSuppressed(draft, hits);
  return { stream, tracking, suppressed: hits };
}

const NO_HITS: Suppressed = new Map();

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

/** Returns the recipients of the drafts, by stream, that could be suppressed: simulated ones never are. */
export function questionsOf(deps: Simulator, sender: Sender, { drafts }: LookedUp): SuppressionQuestion[] {
  return [...drafts].map(([stream, ofStream]) => {
    const real = sender.mode === 'test' ? [] : ofStream.filter(({ test }) => test === null);
    const mailboxes = real.flatMap((draft) => everyRecipient(draft).map(({ mailbox }) => mailbox));
    const keys = mailboxes.filter((one) => !isSimulatedAddress(deps, one)).map(({ address }) => addressKey(address));
    return { accountId: sender.accountId, stream, addressKeys: [...new Set(keys)] };
  });
}

/** Returns how the recipient can unsubscribe; null is off. Throws `header_not_allowed` if the caller sets the same header. */
export function unsubscribeOf(draft: MessageDraft, { isBroadcast }: Stream): Unsubscribe | null {
  const unsubscribe = draft.unsubscribe ?? (isBroadcast ? hostedUnsubscribe : false);
  if (unsubscribe === false) return null;
  refuseListHeaders(draft.headers);
  return unsubscribe;
}

/** Throws `recipient_suppressed` if the draft asks for that and a recipient is suppressed. */
function refuseSuppressed(draft: MessageDraft, suppressed: Suppressed): void {
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
