/**
 * What happens to one delivery, in the words of messages/delivery/delivery.ts with times. Only the plot is thought up here; what each
 * turn of it means is for decide() to say, as with mail that is really sent. Pure.
 */
import type { AttemptFacts, DeliveryChange } from '../../src/messages/delivery/delivery.ts';
import { readAgent } from '../../src/tracking/hit.ts';
import type { Chance } from './chance.ts';
import { blocks, browsers, delays, hard, links, machines, type Refusal } from './words.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
export const GIVE_UP_MS = 72 * HOUR;
const LEASE_MS = 10 * MINUTE;
/** The run of the program that once held the claims. */
const EPOCH = 1;
const SOURCE = '192.0.2.10';

/** How a delivery goes, with its share of all. */
export const fates = {
  delivered: 905,
  slow: 40,
  bounced: 15,
  blocked: 6,
  expired: 3,
  bounced_later: 4,
  complained: 1.5,
  canceled: 3,
  failed: 1,
  unsubscribed: 3,
  scheduled: 8,
} as const;
export type Fate = keyof typeof fates | 'waiting' | 'stuck';

/** Something that happens; a claim and its outcome go together, or the claim would belong to no process. */
export interface Turn {
  at: number;
  changes: readonly { at: number; change: DeliveryChange }[];
}

export interface Plot {
  fate: Fate;
  /** Acceptance, or the time it is scheduled for. */
  dueAt: number;
  domain: string;
  /** Opens and clicks, on average. */
  hits: number;
}

/** In the order of time. */
export function storyOf(chance: Chance, plot: Plot): Turn[] {
  const { fate, dueAt } = plot;
  if (fate === 'canceled') return [single(dueAt - 10 * MINUTE, { kind: 'canceled' })];
  // Nothing has come to it yet.
  if (fate === 'waiting') return [];
  const turns: Turn[] = [];
  let at = dueAt + 20 + chance.below(300);
  const tries = fate === 'slow' ? 1 + chance.below(3) : fate === 'expired' || fate === 'stuck' ? 40 : 0;
  for (let n = 1; n <= tries; n++) {
    const next = at + Math.min(8 * HOUR, 5 * MINUTE * 2 ** (n - 1));
    if (next >= dueAt + GIVE_UP_MS) {
      turns.push(
        attempt(chance, plot, n, at, { kind: 'deferred', refusal: chance.pick(delays), next: dueAt + GIVE_UP_MS }),
      );
      turns.push(single(dueAt + GIVE_UP_MS, { kind: 'aged' }));
      return turns;
    }
    turns.push(attempt(chance, plot, n, at, { kind: 'deferred', refusal: chance.pick(delays), next }));
    at = next;
  }
  const last = attempt(chance, plot, tries + 1, at, endOf(chance, fate));
  turns.push(last);
  if (fate !== 'bounced' && fate !== 'blocked' && fate !== 'failed')
    turns.push(...afterwards(chance, plot, last.changes.at(-1)?.at ?? at));
  return turns.sort((a, b) => a.at - b.at);
}

type End =
  | { kind: 'accepted' }
  | { kind: 'failed' }
  | { kind: 'refused'; refusal: Refusal }
  | { kind: 'deferred'; refusal: Refusal; next: number };

function endOf(chance: Chance, fate: Fate): End {
  if (fate === 'bounced') return { kind: 'refused', refusal: chance.pick(hard) };
  if (fate === 'blocked') return { kind: 'refused', refusal: chance.pick(blocks) };
  return fate === 'failed' ? { kind: 'failed' } : { kind: 'accepted' };
}

const single = (at: number, change: DeliveryChange): Turn => ({ at, changes: [{ at, change }] });

/** A claim and what came of it. */
function attempt(chance: Chance, plot: Plot, number: number, at: number, end: End): Turn {
  const endedAt = at + 150 + Math.floor(chance.wait(600));
  const facts = factsOf(chance, plot, at, endedAt, end);
  const claim: DeliveryChange = { kind: 'claimed', epoch: EPOCH, leaseUntil: at + LEASE_MS };
  const outcome: DeliveryChange = { kind: 'outcome', epoch: EPOCH, attempt: number, outcome: outcomeOf(facts, end) };
  return {
    at,
    changes: [
      { at, change: claim },
      { at: endedAt, change: outcome },
    ],
  };
}

function outcomeOf(facts: AttemptFacts, end: End): Extract<DeliveryChange, { kind: 'outcome' }>['outcome'] {
  if (end.kind === 'accepted') return { kind: 'accepted', facts, viaRelay: false };
  if (end.kind === 'failed')
    return { kind: 'failed', facts, reason: 'content_erased', message: 'its content is no longer there' };
  const verdict = { class: end.refusal.class, reason: end.refusal.reason };
  if (end.kind === 'refused') return { kind: 'refused', facts, verdict };
  return { kind: 'deferred', facts, verdict, retryAt: end.next };
}

function factsOf(chance: Chance, { domain }: Plot, startedAt: number, endedAt: number, end: End): AttemptFacts {
  const common = { startedAt, endedAt, source: SOURCE };
  const refusal = 'refusal' in end ? end.refusal : null;
  if (end.kind === 'failed' || refusal?.code === null)
    return {
      ...common,
      mx: null,
      ip: null,
      tls: null,
      timings: { dns: 4 },
      smtpCode: null,
      enhancedCode: null,
      smtpReply: refusal?.reply ?? null,
    };
  const took = endedAt - startedAt;
  return {
    ...common,
    mx: `mx${String(1 + chance.below(3))}.${domain}`,
    ip: `198.51.100.${String(1 + chance.below(250))}`,
    tls: { protocol: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384', verified: true, policy: 'opportunistic' },
    timings: { dns: 3, connect: 20, banner: 30, tls: 40, mail: 10, rcpt: 10, data: 10, dot: Math.max(1, took - 123) },
    smtpCode: refusal?.code ?? 250,
    enhancedCode: refusal?.enhanced ?? '2.0.0',
    smtpReply: refusal?.reply ?? `250 2.0.0 OK ${startedAt.toString(36)}`,
  };
}

/** The acts of people, their programs and their providers on mail that has arrived. */
function afterwards(chance: Chance, plot: Plot, delivered: number): Turn[] {
  const turns: Turn[] = [];
  if (plot.fate === 'bounced_later') {
    const { class: kind, reason, code, enhanced, reply } = chance.pick(hard);
    const report = { verdict: { class: kind, reason }, smtpCode: code, enhancedCode: enhanced, smtpReply: reply };
    return [single(delivered + Math.floor(chance.wait(10 * MINUTE)), { kind: 'bounced', ...report })];
  }
  if (plot.fate === 'complained')
    turns.push(
      single(delivered + Math.floor(chance.wait(10 * HOUR)), {
        kind: 'complained',
        feedbackType: 'abuse',
        source: 'arf',
        arrivalDate: delivered,
        userAgent: 'ReportMill/1.0',
      }),
    );
  if (plot.fate === 'unsubscribed')
    turns.push(
      single(delivered + Math.floor(chance.wait(20 * HOUR)), {
        kind: 'unsubscribed',
        method: chance.pick(['one_click', 'mailto', 'page']),
      }),
    );
  // Half of all people look at their mail; they do so again and again.
  const looks = chance.odds(0.5) ? Math.round(chance.wait(2 * plot.hits)) : 0;
  for (let n = 0; n < looks; n++) turns.push(hit(chance, delivered));
  return turns;
}

function hit(chance: Chance, delivered: number): Turn {
  const isMachine = chance.odds(0.3);
  const at = delivered + 3 * SECOND + Math.floor(chance.wait(isMachine ? 30 * SECOND : 6 * HOUR));
  const machine = isMachine ? chance.pick(machines) : null;
  const agent = machine?.agent ?? chance.pick(browsers);
  const seen = { at, ip: `203.0.113.${String(1 + chance.below(250))}`, userAgent: agent, bot: machine?.bot ?? null };
  if (chance.odds(0.3)) {
    const link = chance.below(links.length);
    return single(at, { kind: 'clicked', hit: seen, url: links[link] ?? links[0], linkId: String(link), part: 'html' });
  }
  return single(at, { kind: 'opened', hit: seen, ...readAgent(agent) });
}
