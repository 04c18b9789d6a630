/**
 * Fills a database with the mail that it would have after some weeks of use: every row that acceptance, delivery, tracking
 * and webhooks leave behind, with books that balance. Nothing is sent; mail that still waits is for domains that do not exist.
 */
import { newId } from '../../src/base/id.ts';
import { auditRow } from '../../src/operations/audit-row.ts';
import type { RowsToWrite } from '../../src/messages/delivery/record.ts';
import { wordRows } from '../../src/messages/list/message-filter.ts';
import type { Rows } from '../../src/storage/rows.ts';
import type { AuditRow, EventRow } from '../../src/storage/tables.ts';
import { chanceOf, type Chance } from './chance.ts';
import { calls } from './calls.ts';
import { contentRow, writeMessage, type Letter } from './message.ts';
import { personOf } from './people.ts';
import { setUp, type SeedDeps, type Sender } from './set-up.ts';
import { seedWorld } from './world.ts';
import { fates, storyOf, type Fate } from './story.ts';
import { campaigns, kinds } from './words.ts';

export interface SeedOptions {
  messages: number;
  /** Events a message, on average. */
  events: number;
  /** How far back it goes. */
  days: number;
  /** Chooses the story; the same seed tells the same one. */
  seed: number;
  /** Told of messages written so far. */
  progress?: (done: number) => void;
  /** Waited for whenever a day of the story has been written, with the time of its end. */
  dayEnds?: (at: number) => Promise<void>;
}

export interface Seeded {
  /** A key of the default account with every scope. */
  key: string;
  messages: number;
  events: number;
  accounts: readonly string[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const AT_ONCE = 1000;
/** Mail of one campaign, at most what one request may carry. */
const LARGEST_CAMPAIGN = 1000;
/** Sent, delivered and what goes wrong: the events of a message without opens and clicks. */
const EVENTS_WITHOUT_HITS = 2.1;
/** Messages at the end that wait, scheduled, deferred or untried. */
const STILL_WAITING = 12;

/** Throws if the database was seeded before. */
export async function seedData(deps: SeedDeps, options: SeedOptions): Promise<Seeded> {
  const senders = await setUp(deps);
  const writer = new Writer(deps, options, senders);
  let day: number | null = null;
  for (const at of timesOf(deps.clock.now(), options)) {
    const today = Math.floor(at / DAY_MS);
    if (options.dayEnds !== undefined && day !== null && today !== day) {
      await writer.flush(at);
      await options.dayEnds(today * DAY_MS);
    }
    day = today;
    if (writer.add(at)) await writer.flush(at);
  }
  await writer.flush(Infinity);
  await calls(deps, senders[0].accountId);
  await seedWorld(deps, chanceOf(options.seed + 1), { accountId: senders[0].accountId, days: options.days });
  const [{ key }] = senders;
  return {
    key,
    messages: options.messages,
    events: writer.events,
    accounts: senders.map(({ accountId }) => accountId),
  };
}

/** Ascending; most mail goes out in the daytime of working days. */
function* timesOf(now: number, { messages, days }: SeedOptions): Generator<number> {
  const begin = now - days * 24 * HOUR_MS;
  const weights = Array.from({ length: days * 24 }, (_, hour) => weightOf(begin + hour * HOUR_MS));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let hour = 0;
  let before = 0;
  for (let n = 0; n < messages; n++) {
    const target = (n / messages) * total;
    while (before + (weights[hour] ?? 0) < target) before += weights[hour++] ?? 0;
    yield Math.floor(begin + (hour + (target - before) / (weights[hour] ?? 1)) * HOUR_MS);
  }
}

function weightOf(ms: number): number {
  const date = new Date(ms);
  const isWeekend = date.getUTCDay() % 6 === 0;
  return (1.2 + Math.sin(((date.getUTCHours() - 9) / 24) * 2 * Math.PI)) * (isWeekend ? 0.5 : 1);
}

interface Campaign {
  left: number;
  at: number;
  batchId: string;
  contentId: string;
  subject: string;
  tags: readonly string[];
}

/** Gathers rows and writes them by the thousand; events go out in the order of their time, as the log has it. */
class Writer {
  private readonly deps: SeedDeps;
  private readonly options: SeedOptions;
  private readonly senders: readonly [Sender, Sender];
  private readonly chance: Chance;
  private readonly now: number;
  private readonly people: number;
  private number = 0;
  private campaign: Campaign | null = null;
  private writing: Promise<void> = Promise.resolve();
  private gathered: RowsToWrite = emptyGathered();
  private rows = emptyRows();
  /** By hour. */
  private readonly later = new Map<number, EventRow[]>();
  /** The addresses that must not be mailed, and from when on; by account, scope and address. */
  private readonly suppressed = new Map<string, { id: string; reason: string; since: number }>();
  events = 0;

  constructor(deps: SeedDeps, options: SeedOptions, senders: readonly [Sender, Sender]) {
    this.deps = deps;
    this.options = options;
    this.senders = senders;
    this.chance = chanceOf(options.seed);
    this.now = deps.clock.now();
    this.people = Math.max(50, Math.ceil(options.messages / 5));
  }

  /** Writes the next message; true when it is time to flush. */
  add(at: number): boolean {
    const { chance } = this;
    const place = this.number++;
    const sender = chance.odds(0.06) ? this.senders[1] : this.senders[0];
    const fate = this.fateOf(place);
    const letter = this.letter(sender, place, at, fate);
    const hits = Math.max(0, this.options.events - EVENTS_WITHOUT_HITS);
    const dueAt = letter.sendAt ?? letter.at;
    const tell = (domain: string): ReturnType<typeof storyOf> => storyOf(chance, { fate, dueAt, domain, hits });
    const { message, deliveries } = writeMessage(letter, tell, this.now, this.gathered);
    this.rows.messages.push(message);
    this.rows.deliveries.push(...deliveries);
    for (const tag of letter.tags)
      this.rows.message_tags.push({ account_id: letter.accountId, tag, message_id: message.id });
    for (const [name, value] of Object.entries(letter.metadata))
      this.rows.message_metadata.push({ account_id: letter.accountId, name, value, message_id: message.id });
    this.rows.message_words.push(...wordRows(letter.accountId, message.id, message.subject));
    if (letter.batchId === null) this.rows.audit.push(sendRow(letter, message.request_id ?? ''));
    this.remember();
    return this.rows.messages.length >= AT_ONCE;
  }

  private fateOf(place: number): Fate {
    const left = this.options.messages - place;
    if (left <= STILL_WAITING) return (['waiting', 'stuck', 'scheduled'] as const)[left % 3] ?? 'waiting';
    return this.chance.weighted(fates);
  }

  private letter(sender: Sender, place: number, at: number, fate: Fate): Letter {
    const { chance } = this;
    const campaign = fate === 'scheduled' ? null : this.campaignAt(at, place);
    const when = campaign?.at ?? at;
    const from = campaign === null ? sender : this.senders[0];
    // Mail that may yet be tried goes to hosts that do not exist.
    const waits =
      fate === 'waiting' ||
      fate === 'scheduled' ||
      (when > this.now - 4 * 24 * HOUR_MS && fate !== 'delivered') ||
      when > this.now - HOUR_MS;
    const person = personOf(chance.below(this.people), waits);
    const common = { accountId: from.accountId, to: person, at: when, fromDomain: chance.pick(from.domains) };
    if (campaign !== null)
      return {
        ...common,
        keyId: from.keyId,
        batchId: campaign.batchId,
        contentId: campaign.contentId,
        cc: null,
        subject: campaign.subject,
        stream: 'broadcast',
        template: null,
        tags: campaign.tags,
        metadata: { user_id: String(person.number) },
        sendAt: null,
        test: false,
        suppression: this.suppressionOf(from.accountId, 'broadcast', person.key, when),
      };
    const kind = kinds.find(({ name }) => name === chance.weighted(kindShares)) ?? kinds[0];
    const subject = chance.pick(kind.subjects).replace('{n}', String(100_000 + place));
    const content = contentRow(sender.accountId, when, subject);
    this.rows.contents.push(content);
    const test = fate === 'delivered' && chance.odds(0.01);
    return {
      ...common,
      keyId: test ? from.testKeyId : from.keyId,
      batchId: null,
      contentId: content.id,
      subject,
      stream: 'transactional',
      cc: chance.odds(0.03) ? personOf(chance.below(this.people), waits) : null,
      template: kind.template === null ? null : (from.templates.get(kind.template) ?? null),
      tags: kind.tags,
      metadata: {
        user_id: String(person.number),
        ...(kind.name === 'receipt' ? { order_id: String(100_000 + place) } : {}),
      },
      sendAt: fate === 'scheduled' || fate === 'canceled' ? when + HOUR_MS + chance.below(48) * HOUR_MS : null,
      test,
      suppression: this.suppressionOf(from.accountId, 'transactional', person.key, when),
    };
  }

  /** The campaign that runs, or one that begins: a quarter of all mail. */
  private campaignAt(at: number, place: number): Campaign | null {
    const size = Math.min(LARGEST_CAMPAIGN, Math.ceil(this.options.messages / 50));
    if (this.campaign !== null && --this.campaign.left > 0) return this.campaign;
    this.campaign = null;
    if (place + size > this.options.messages - STILL_WAITING || !this.chance.odds(1 / 3 / size)) return null;
    const { subject, tags } = this.chance.pick(campaigns);
    const [{ accountId }] = this.senders;
    const content = contentRow(accountId, at, subject);
    const batchId = newId('bat', at);
    this.rows.contents.push(content);
    this.rows.batches.push({
      id: batchId,
      account_id: accountId,
      accepted: size,
      rejected: this.chance.below(4),
      created_at: at,
      test: 0,
    });
    return (this.campaign = { left: size, at, batchId, contentId: content.id, subject, tags });
  }

  private suppressionOf(accountId: string, stream: string, key: string, at: number): Letter['suppression'] {
    for (const scope of ['account', `stream:${stream}`]) {
      const found = this.suppressed.get(`${accountId} ${scope} ${key}`);
      if (found !== undefined && found.since <= at) return found;
    }
    return null;
  }

  private remember(): void {
    for (const { id, account_id, scope, address_key, reason, created_at } of this.gathered.suppressions) {
      const place = `${account_id} ${scope} ${address_key}`;
      if (this.suppressed.has(place)) continue;
      this.suppressed.set(place, { id, reason, since: created_at });
      const row = this.gathered.suppressions.find((one) => one.id === id);
      if (row !== undefined) this.rows.suppressions.push(row);
    }
    this.gathered.suppressions = [];
    for (const event of this.gathered.events) {
      const hour = Math.floor(event.at / HOUR_MS);
      const same = this.later.get(hour);
      if (same === undefined) this.later.set(hour, [event]);
      else same.push(event);
      this.events++;
    }
    this.gathered.events = [];
  }

  /** Writes what was gathered, and the events of all hours before this time. One batch is written while the next is made. */
  async flush(before: number): Promise<void> {
    const hours = [...this.later.keys()].filter((hour) => (hour + 1) * HOUR_MS <= before).sort((a, b) => a - b);
    const events = hours.flatMap((hour) => (this.later.get(hour) ?? []).sort((a, b) => a.at - b.at));
    for (const hour of hours) this.later.delete(hour);
    const { attempts, counters, stats } = this.gathered;
    const rows: Rows = {
      ...this.rows,
      attempts,
      events,
      counters: [...counters.values()],
      event_counts: [...stats.values()],
    };
    this.gathered = emptyGathered();
    this.rows = emptyRows();
    await this.writing;
    this.options.progress?.(this.number);
    this.writing = this.deps.db.commit.insert(rows);
    if (before === Infinity) await this.writing;
  }
}

const kindShares = Object.fromEntries(kinds.map(({ name, share }) => [name, share]));

const emptyGathered = (): RowsToWrite => ({
  attempts: [],
  events: [],
  suppressions: [],
  counters: new Map(),
  stats: new Map(),
  failures: [],
});

const emptyRows = () =>
  ({
    batches: [],
    contents: [],
    messages: [],
    deliveries: [],
    message_tags: [],
    message_metadata: [],
    message_words: [],
    audit: [],
    suppressions: [],
  }) as {
    [
      T in
        | 'batches'
        | 'contents'
        | 'messages'
        | 'deliveries'
        | 'message_tags'
        | 'message_metadata'
        | 'message_words'
        | 'audit'
        | 'suppressions'
    ]: NonNullable<Rows[T]>[number][];
  };

const sendRow = ({ accountId, keyId, at }: Letter, requestId: string): AuditRow =>
  auditRow({
    at,
    accountId,
    keyId,
    actor: 'key:Shop',
    ip: '192.0.2.77',
    method: 'POST',
    endpoint: '/v1/messages',
    status: 202,
    requestId,
    ms: 4,
    userAgent: 'posthorn-client/1.0.0',
    operation: 'sendMessage',
  });
