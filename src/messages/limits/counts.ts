/**
 * Counts the mails of hours and days (UTC) that are limited: by the rules of `delivery.limits` and config/limits.yaml, by people, and by the warm-up
 * of a source at each site, whose number grows from day to day while receivers take its mail well. A mail is counted when it was offered to a host;
 * its row is written in the commit of the outcome (book.ts). Of several nodes each may use an equal part of what was left when it read the counts
 * last, which it does every two seconds.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/clock.ts';
import { limitWords } from '../../base/pluralize.ts';
import { DAY_MS, HOUR_MS } from '../../base/time.ts';
import type { MailRule } from '../../config/mail-rules.ts';
import type { Connection } from '../../storage/connection.ts';
import type { LimitCountRow } from '../../storage/tables.ts';
import type { Outcome } from '../delivery/delivery.ts';
import { readMark, writeMark } from '../delivery/hold-mark.ts';
import type { Hold } from '../delivery/holds.ts';
import { ANY_SOURCE, EVERYWHERE, isInForce, keyOf, newLimit, scopeText } from './limit.ts';
import type { About, Limit, MailKey, Quota } from './limit.ts';

/** Mails a day, from the first on; a source that has come through them all is warm. */
export const DAILY_CAPS = [50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000] as const;
const MOST_BAD = 0.05;
const MOST_COMPLAINTS = 0.001;
const LEAST_USE = 0.5;
/** Reputations fade: a site that got no mail from a source for this many days begins again. */
const KEPT_DAYS = 30;
/** In the table; no rule of a person can have this name. */
const WARM_UP = '~warm-up';
/** Counts in memory; those that were used longest ago are forgotten first. */
const MOST_COUNTS = 50_000;
/** Rows that one look at the counts of other nodes reads at most, those with the most mail first. */
export const MOST_READ = 1000;
/** While mails that are under way may use up the rest, or other nodes may have left some, others look again after so long, in ms. */
export const LOOK_MS = 2_000;

export const capOf = (stage: number): number | null => DAILY_CAPS[stage] ?? null;

type Counts = Pick<LimitCountRow, 'sent' | 'blocked' | 'deferred' | 'complained'>;
const none: Counts = { sent: 0, blocked: 0, deferred: 0, complained: 0 };

/** Returns the stage of the day after this one. Pure. */
export function stageAfter({ stage, sent, blocked, deferred, complained }: Counts & { stage: number }): number {
  const cap = capOf(stage);
  if (cap === null || sent < cap * LEAST_USE) return stage;
  const isBad = (blocked + deferred) / sent >= MOST_BAD || complained / sent >= MOST_COMPLAINTS;
  return isBad ? stage : stage + 1;
}

interface Count {
  row: LimitCountRow;
  /** The mails that all nodes had sent when the rows were read last. */
  read: number;
  /** Mails that are under way. */
  inFlight: number;
}

export interface CountRules {
  readonly rules: readonly MailRule[];
  /** Sources that are warmed up, with the day it began if the operator says so. */
  readonly warming: ReadonlyMap<string, { since: number | null }>;
}

export interface CountDeps {
  db: { prepared: Pick<Connection, 'all'> };
  clock: Clock;
  /** Returns the number of nodes that deliver. */
  nodes: () => number;
  /** Is called if the rows could not be read: the counts of this node go on. */
  failed: (error: unknown) => void;
}

const lengths = { hour: HOUR_MS, day: DAY_MS } as const;
/** Returns `2026-01-31`, or `2026-01-31T14`. */
const spanOf = (of: Quota['of'], ms: number): string => new Date(ms).toISOString().slice(0, of === 'day' ? 10 : 13);

export class LimitCounts {
  private readonly deps: CountDeps;
  private readonly warming: CountRules['warming'];
  /** Of rules and of warm-ups; then those that people have set. */
  private ofRules: readonly Limit[] = [];
  private byHand: readonly Limit[] = [];
  private all: readonly Limit[] = [];
  private readonly counts = new LRUCache<string, Count>({ max: MOST_COUNTS });
  private unwritten = new Map<string, LimitCountRow>();
  private readonly writing = new Set<readonly LimitCountRow[]>();
  private readAt = -Infinity;
  /** The number of nodes when the counts were read last. */
  private readFor = 1;
  /** Until then others may not know of this node, which has just started. */
  private knownAt: number | null = null;
  /** Another number after each change of the limits. */
  version = 0;
  /** Some limit tells streams apart: the stream of a mail has to be known before its turn. */
  needStreams = false;

  constructor(deps: CountDeps, { rules, warming }: CountRules = noRules) {
    this.deps = deps;
    this.warming = warming;
    this.setRules(rules);
  }

  setRules(rules: CountRules['rules']): void {
    this.ofRules = [
      ...rules.flatMap(({ name, match, each, perHour = null, perDay = null }) => {
        const { source = ANY_SOURCE, domain = null, account = null, stream = null, operator } = match;
        const limit = newLimit('count', { ...anywhere, source, domain, account }, 0);
        return quotasOf({ ...limit, stream, id: name, perHour, perDay }, { name: `the rule ${name}`, each, operator });
      }),
      ...[...this.warming.keys()].map((source) => countLimit(newLimit('count', { ...anywhere, source }, 0), warmUp)),
    ];
    this.replace();
  }

  setByHand(limits: readonly Limit[]): void {
    this.byHand = limits.flatMap((limit) => quotasOf(limit, { name: `the limit of ${scopeText(limit)}`, each: [] }));
    this.replace();
  }

  /** Takes the limits that are others now. What was counted for one that is gone goes with it: mail that is under way does not end there. */
  private replace(): void {
    this.all = [...this.ofRules, ...this.byHand];
    const now = new Set(this.all.map(keyOf));
    for (const key of [...this.counts.keys()]) if (!now.has(key.split(' ', 2).join(' '))) this.counts.delete(key);
    this.version++;
    this.needStreams = this.all.some(({ stream, quota }) => stream !== null || quota?.each.includes('stream') === true);
  }

  /** Returns the limits of a lane. */
  limitsAt(at: Pick<About, 'site' | 'source'>, operator: string | null): Limit[] {
    return this.all
      .filter(({ site, source }) => (site || at.site) === at.site && (source === ANY_SOURCE || source === at.source))
      .filter(({ quota }) => (quota?.operator ?? operator) === operator)
      .map((limit) => ({ ...limit, ...at }));
  }

  /** Returns when the mail may go, or a mail of the lane at all: 0 if one may now. */
  fullUntil(limit: Limit, mail: MailKey | null): number {
    if (limit.quota === null) return 0;
    const { row, read, inFlight } = this.at(limit.quota, subjectOf(limit.quota, limit, mail));
    const most = limit.quota.most ?? capOf(row.stage);
    const now = this.deps.clock.now();
    if (most === null || !isInForce(limit, now)) return 0;
    const length = lengths[limit.quota.of];
    if (row.sent >= most) return Math.min((Math.floor(now / length) + 1) * length, limit.until || Infinity);
    // A lane begins mail that finds itself whether all that is left is under way.
    if (mail === null) return 0;
    const nodes = this.deps.nodes();
    // The counts of a node that has ended are known after the next look only.
    const parts = Math.max(nodes, this.readFor);
    if (parts > 1 && this.deps.clock.monotonic() - this.readAt >= LOOK_MS)
      this.read(1, MOST_READ).catch(this.deps.failed);
    return row.sent + inFlight - read < Math.ceil((most - read) / parts) ? 0 : now + LOOK_MS;
  }

  begin(limit: Limit, mail: MailKey, by = 1): void {
    if (limit.quota === null) return;
    const subject = subjectOf(limit.quota, limit, mail);
    const count = this.at(limit.quota, subject);
    count.inFlight = Math.max(0, count.inFlight + by);
    this.counts.set(`${limit.quota.rule} ${limit.quota.of} ${subject}`, count);
  }

  /** Counts a mail that was offered to a host. Returns whether none may follow. */
  end(limit: Limit, mail: MailKey, outcome: Outcome): boolean {
    if (limit.quota === null) return false;
    this.begin(limit, mail, -1);
    const blocked = outcome.kind === 'refused' && outcome.verdict.class === 'block' ? 1 : 0;
    // Greylisting and dead connections say nothing about the sender.
    const isAnswered = outcome.facts.smtpCode !== null;
    const deferred = outcome.kind === 'deferred' && isAnswered && outcome.grounds?.greylisting !== true ? 1 : 0;
    this.add(limit.quota, subjectOf(limit.quota, limit, mail), { ...none, sent: 1, blocked, deferred });
    return this.fullUntil(limit, null) > this.deps.clock.now();
  }

  /** Counts a complaint about a mail of a source that is warmed up. */
  complained(source: string, site: string): void {
    if (this.warming.has(source)) this.add(warmUp, `${source} ${site}`, { ...none, complained: 1 });
  }

  /** Returns today's counts of a source that is warmed up, busiest site first. A cap of null means no limit. */
  warmUpOf(source: string): { site: string; sent: number; cap: number | null }[] {
    if (!this.warming.has(source)) return [];
    return [...this.counts.values()]
      .filter(({ row: { rule, subject } }) => rule === WARM_UP && subject.startsWith(`${source} `))
      .map(({ row: { subject } }) => {
        const { sent, stage } = this.at(warmUp, subject).row;
        return { site: subject.slice(source.length + 1), sent, cap: capOf(stage) };
      })
      .sort((a, b) => b.sent - a.sent);
  }

  /** Says in a sentence what the limit allows. */
  say({ quota, source, site, cause }: Limit): string {
    if (quota === null) return '';
    if (quota.most === null) {
      const { stage } = this.at(quota, `${source} ${site}`).row;
      return `the warm-up of ${source} sends ${site} ${String(capOf(stage) ?? 0)} mails today`;
    }
    const each = quota.each.length === 0 ? '' : `, counted for each ${quota.each.join(' and ')}`;
    const note = cause === '' ? '' : ` (${cause})`;
    return `${quota.name} lets ${limitWords(`per_${quota.of}`, quota.most)} go${each}${note}; as many have gone`;
  }

  /** Returns the hold of a mail that a limit keeps back until then. */
  holdBy({ quota }: Limit, until: number): Hold | null {
    return this.holdOf(writeMark({ kind: 'rule', rule: quota?.rule ?? '', until }));
  }

  /** Returns the hold of such a mark; null if it has ended, or the rule is gone. */
  holdOf(by: string): Hold | null {
    const mark = readMark(by);
    const since = this.deps.clock.now();
    if (mark?.kind !== 'rule' || mark.until <= since) return null;
    const found = this.all
      .filter(({ quota }) => quota?.rule === mark.rule)
      .find((limit) => limit.by !== 'operator' || this.fullUntil(limit, null) > since);
    if (found === undefined) return null;
    const why = `${found.quota?.name ?? ''} lets no more of this mail go before ${new Date(mark.until).toISOString()}`;
    return { by, why, since, until: mark.until, setBy: 'operator' };
  }

  get hasUnwritten(): boolean {
    return this.unwritten.size > 0;
  }

  /** Returns the counts that are not written yet, and are being written until `written` is called. */
  takeUnwritten(): readonly LimitCountRow[] {
    const rows = [...this.unwritten.values()];
    this.unwritten = new Map();
    this.writing.add(rows);
    return rows;
  }

  written(rows: readonly LimitCountRow[], isDone: boolean): void {
    this.writing.delete(rows);
    if (!isDone) for (const row of rows) addTo(this.unwritten, row);
  }

  /** Reads what earlier runs and all nodes have counted. */
  async read(days = KEPT_DAYS, most = MOST_COUNTS): Promise<void> {
    const { clock, db } = this.deps;
    this.knownAt ??= clock.monotonic() + LOOK_MS;
    if (this.all.length === 0) return;
    const nodes = this.deps.nodes();
    this.readAt = clock.monotonic();
    const isKnown = nodes === 1 || this.readAt >= this.knownAt;
    const rows = await db.prepared.all<LimitCountRow>(
      'SELECT * FROM limit_counts WHERE span >= ? AND span <= ? ORDER BY span DESC, sent DESC LIMIT ?',
      [spanOf('day', clock.now() - days * DAY_MS), spanOf('day', clock.now() + 2 * DAY_MS), most],
    );
    // Mail whose counts are being written may be in these rows already: then it counts twice until they are read again.
    const own = new Map(this.unwritten);
    for (const row of [...this.writing].flat()) addTo(own, row);
    for (const read of rows.reverse()) {
      const of = read.span.length > 10 ? 'hour' : 'day';
      const key = `${read.rule} ${of} ${read.subject}`;
      const known = this.counts.get(key);
      if (known !== undefined && known.row.span > read.span) continue;
      const row = plus(read, own.get(rowKey(read)) ?? none);
      this.counts.set(key, { row, read: row.sent, inFlight: known?.inFlight ?? 0 });
    }
    this.readFor = isKnown ? nodes : Infinity;
  }

  /** Returns the count of the span that runs. A clock that went back keeps the span it has: counting twice would send twice as much. */
  private at({ rule, of, most }: Quota, subject: string): Count {
    const now = this.deps.clock.now();
    const span = spanOf(of, now);
    const known = this.counts.get(`${rule} ${of} ${subject}`);
    if (known !== undefined && known.row.span >= span) return known;
    const isForgotten = known === undefined || known.row.span < spanOf(of, now - KEPT_DAYS * DAY_MS);
    const stage = most !== null ? 0 : isForgotten ? this.firstStage(subject) : stageAfter(known.row);
    return { row: { rule, subject, span, stage, ...none }, read: 0, inFlight: known?.inFlight ?? 0 };
  }

  private firstStage(subject: string): number {
    const since = this.warming.get(subject.slice(0, subject.indexOf(' ')))?.since ?? null;
    return since === null ? 0 : Math.max(0, Math.floor((this.deps.clock.now() - since) / DAY_MS));
  }

  private add(quota: Quota, subject: string, counts: Counts): void {
    const count = this.at(quota, subject);
    count.row = plus(count.row, counts);
    this.counts.set(`${quota.rule} ${quota.of} ${subject}`, count);
    addTo(this.unwritten, { ...count.row, ...counts });
  }
}

const noRules: CountRules = { rules: [], warming: new Map() };
const warmUp: Quota = { rule: WARM_UP, name: '', of: 'day', most: null, each: ['source', 'site'] };
const anywhere: About = { site: EVERYWHERE, source: ANY_SOURCE, domain: null, account: null };

const countLimit = (limit: Limit, quota: Quota): Limit => ({
  ...{ ...limit, kind: 'count', id: `${quota.rule} ${quota.of}`, quota, evidence: null },
  ...{ connections: null, perMinute: null },
});

/** Returns a limit for each number of mails that this one has. */
const quotasOf = (limit: Limit, quota: Pick<Quota, 'name' | 'each' | 'operator'>): Limit[] =>
  [['hour', limit.perHour] as const, ['day', limit.perDay] as const].flatMap(([of, most]) =>
    most === null ? [] : countLimit(limit, { ...quota, rule: keyOf(limit), of, most }),
  );

/** Returns for what the mail is counted. Without a mail only what is the same for all mail of a lane is asked for. */
function subjectOf({ each }: Quota, { source, site }: Pick<About, 'source' | 'site'>, mail: MailKey | null): string {
  if (each.length === 0) return '';
  const { account = '', domain = '', stream = '' } = mail ?? {};
  const values = { source, site, domain, account, stream: `${account}/${stream}` };
  return each.map((one) => values[one]).join(' ');
}

const rowKey = ({ rule, span, subject }: LimitCountRow): string => `${rule} ${span} ${subject}`;

/** Adds what was counted to a row that is to be written. */
const addTo = (rows: Map<string, LimitCountRow>, row: LimitCountRow): unknown =>
  rows.set(rowKey(row), plus(rows.get(rowKey(row)) ?? { ...row, ...none }, row));

const plus = <Row extends Counts>(row: Row, { sent, blocked, deferred, complained }: Counts): Row => ({
  ...row,
  sent: row.sent + sent,
  blocked: row.blocked + blocked,
  deferred: row.deferred + deferred,
  complained: row.complained + complained,
});
