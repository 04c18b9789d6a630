/** Reports on lanes and destinations for operators, commands and metrics: from memory; `resolve` waits for DNS. */
import { mapInSlices } from '../base/slices.ts';
import type { Holds } from '../messages/delivery/holds.ts';
import type { LaneChange, LaneLimitsReport, LaneReport } from '../messages/delivery/lane-report.ts';
import { waitsOfSoonest, type LaneFacts, type LaneWait, type MailOfLane } from '../messages/delivery/why.ts';
import type { Lanes, LaneView } from '../scheduling/lanes.ts';
import { DEFAULT_POOL } from '../storage/tables.ts';
import { needOf } from './attempt/host-policy.ts';
import type { DueQueue, Job } from './due-queue.ts';
import type { Aside } from './lanes/aside.ts';
import type { LaneControl } from './lanes/lane-control.ts';
import type { MailKey } from '../messages/limits/limit.ts';
import { laneName } from './names.ts';
import type { Placing } from './placing.ts';
import type { Destination, Site, Sites, Unresolved } from './sites/sites.ts';
import type { Sources } from './sources/sources.ts';

/** The destination of a domain's mail, and the conditions under which it goes there. */
export interface Resolved {
  destination: Destination;
  /** The needs of the hosts, in the order they are tried. */
  needs: readonly ReturnType<typeof needOf>[];
  lane: LaneReport | null;
}

export interface LaneReportsDeps {
  sites: Pick<Sites, 'find' | 'known' | 'lastKnown' | 'isAsking'>;
  sources: Pick<Sources, 'named' | 'list' | 'namesOf' | 'isFree' | 'heldBy' | 'holdOf' | 'allAway'>;
  holds: Pick<Holds, 'ofLane'>;
  control: Pick<LaneControl, 'report' | 'history' | 'names' | 'atRest' | 'routeOf' | 'register' | 'waits'>;
  lanes: Pick<Lanes<Job>, 'view' | 'views'>;
  aside: Pick<Aside, 'count'>;
  dueQueue: Pick<DueQueue, 'awaitsPlace'>;
  placing: Pick<Placing, 'laneFor' | 'isLookingUp' | 'lookUpForReports'>;
  /** Returns the pool of sources that a stream of an account names. */
  poolOf: (accountId: string, stream: string) => Promise<string>;
}

/** Workers for mail that needs no network: each waits for the grouped commit only, so that few of them would make small groups. */
export const INNER_SLOTS = 64;

/** The lanes with the most jobs in memory first, or those with the most workers. */
const orders = {
  fullest: (a: LaneView, b: LaneView): number => b.waiting - a.waiting || b.slots - a.slots,
  busiest: (a: LaneView, b: LaneView): number => b.slots - a.slots || b.waiting - a.waiting,
};

export class LaneReports {
  private readonly deps: LaneReportsDeps;

  constructor(deps: LaneReportsDeps) {
    this.deps = deps;
  }

  /**
   * Returns at most `most` of the lanes, since a report of each of thousands takes too long: first those with work. Among the fullest are lanes
   * that rest, half of all at most: their mail rests on disk.
   */
  list(most: number, first: 'fullest' | 'busiest'): Promise<LaneReport[]> {
    const atWork = this.deps.lanes.views().filter(({ waiting, slots }) => (first === 'fullest' ? waiting : slots) > 0);
    const views = atWork.length < most ? this.names().map((name) => this.deps.lanes.view(name)) : atWork;
    const resting = first === 'fullest' ? this.deps.control.atRest().slice(0, most / 2) : [];
    const names = new Set([...resting, ...views.sort(orders[first]).map(({ name }) => name)]);
    return mapInSlices([...names].slice(0, most), (name) => this.reportOf(name));
  }

  one(name: string): { now: LaneReport; changes: LaneChange[] } | null {
    const report = this.deps.control.report(name);
    if (report === null) return null;
    return { now: { ...this.viewOf(name), ...report }, changes: this.deps.control.history(name) };
  }

  /** Returns the lanes of a site that are known, one for each source that mail has left from. */
  ofSite(site: string): LaneReport[] {
    return this.lanesOfSite(site).flatMap((name) => this.one(name)?.now ?? []);
  }

  /** Returns the lane of a domain, as it was last known. If it is not, the domain is looked up for the next report. */
  laneOf(domain: string): string {
    const { sites, placing } = this.deps;
    const known = sites.lastKnown(domain);
    if (known === null || known.kind === 'unresolved') {
      if (sites.known(domain) === null) placing.lookUpForReports(domain);
      return '~unresolved';
    }
    if (known.kind === 'hold') return '~hold';
    return known.kind === 'site' ? known.name : placing.laneFor(known, null);
  }

  async factsOf(mail: MailOfLane): Promise<LaneFacts> {
    const pool = mail.stream == null ? null : await this.deps.poolOf(mail.account, mail.stream);
    const { held, waits } = this.factsOfDestination(mail, pool);
    return waits.length === 0 && this.deps.dueQueue.awaitsPlace(mail.domain, mail.account)
      ? { held, waits: [placeWait] }
      : { held, waits };
  }

  async resolve(domain: string): Promise<Resolved> {
    const destination = await this.deps.sites.find(domain);
    if (destination.kind !== 'site') return { destination, needs: [], lane: null };
    const name = this.deps.placing.laneFor(destination, null);
    return {
      destination,
      needs: destination.hosts.map((host) => needOf(destination, host)),
      lane: this.one(name)?.now ?? null,
    };
  }

  /** `pool`: that of the mail's stream, if it is known. */
  private factsOfDestination({ domain, account, mark = null }: MailOfLane, pool: string | null): LaneFacts {
    const { sites, sources, holds } = this.deps;
    const marked = mark === null ? null : sources.holdOf(mark);
    const known = sites.lastKnown(domain);
    if (known === null || known.kind === 'unresolved')
      return {
        held: marked,
        waits: dnsWaits(domain, known, sites.isAsking(domain) || this.deps.placing.isLookingUp(domain)),
      };
    if (known.kind === 'hold') return { held: marked, waits: [routeWait(known.route)] };
    if (known.kind !== 'site') return { held: marked, waits: [] };
    const held =
      holds.ofLane(known.name) ??
      marked ??
      (pool === null && sources.named ? sources.allAway() : sources.heldBy(pool ?? DEFAULT_POOL, known.name));
    return { held, waits: this.siteWaits(known, { account, domain }, pool) };
  }

  private names(): string[] {
    const { lanes, control } = this.deps;
    return [...new Set([...lanes.views().map(({ name }) => name), ...control.names().reverse()])];
  }

  private reportOf(name: string): LaneReport {
    const report = this.deps.control.report(name);
    const view = this.viewOf(name);
    return report === null ? { ...view, ...noNetwork } : { ...view, ...report };
  }

  /** Jobs that are put aside wait in the lane, too. */
  private viewOf(name: string): LaneView {
    const view = this.deps.lanes.view(name);
    return { ...view, waiting: view.waiting + this.deps.aside.count(name) };
  }

  private lanesOfSite(site: string): string[] {
    const { sources } = this.deps;
    return sources.named ? sources.list().map(({ name }) => laneName(site, name)) : [site];
  }

  /** Returns what a mail waits for by the source that sends it: if one of its pool may go on, only what that one waits for. */
  private siteWaits(site: Site, mail: MailKey, pool: string | null): readonly LaneWait[] {
    const { control, sources } = this.deps;
    const names = pool === null ? sources.list().map(({ name }) => name) : sources.namesOf(pool);
    const free = names.filter((name) => sources.isFree(name, site.name));
    const waits = free.map((name) => {
      const lane = laneName(site.name, name);
      if (control.routeOf(lane) === null) control.register(lane, site, name);
      return control.waits(lane, mail, site);
    });
    return waitsOfSoonest(waits);
  }
}

/** The report of a lane whose mail needs no connection: its workers are not counted, since they use none. */
const noNetwork: LaneLimitsReport & Pick<LaneView, 'slots'> = {
  slots: 0,
  source: null,
  limit: INNER_SLOTS,
  cause: 'no network',
  causeAt: null,
  perMinute: null,
  limits: [],
  parkedUntil: null,
  waits: [],
  lastReply: null,
  lastProgressAt: 0,
};

function dnsWaits(domain: string, known: Unresolved | null, isAsking: boolean): LaneWait[] {
  if (known !== null)
    return [
      {
        reason: 'dns_trouble',
        message: `DNS does not tell where mail for ${domain} goes: ${known.route.text}. It is asked again, and no attempt is spent.`,
        since: known.since,
        until: known.until,
        by: 'dns',
        stops: true,
      },
    ];
  const message = `The mail hosts of ${domain} are being looked up.`;
  return isAsking ? [{ reason: 'resolving', message, since: null, until: null, by: 'us', stops: true }] : [];
}

const placeWait: LaneWait = {
  reason: 'queued',
  message:
    'It is due and waits until mail for other domains has gone: the number of domains, and of those of one account, that have mail in memory at once is limited.',
  since: null,
  until: null,
  by: 'us',
  stops: false,
};

const routeWait = (route: string): LaneWait => ({
  reason: 'held',
  message: `The route of ${route === '*' ? 'all other domains (*)' : route} in delivery.routes holds its mail, whose time runs on. It goes when the route is another.`,
  since: null,
  until: null,
  by: 'operator',
  stops: true,
});
