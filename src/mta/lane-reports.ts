/** Reports on lanes and destinations for operators, commands and metrics: from memory; `resolve` waits for DNS. */
import { mapInSlices } from '../base/slices.ts';
import {
  blankLane,
  type LaneReport,
  laneWait,
  waitsOfSoonest,
  type LaneFacts,
  type LaneWait,
  type MailOfLane,
} from '../messages/delivery/why.ts';
import type { MailKey } from '../messages/limits/limit.ts';
import { needOf } from './attempt/outcome.ts';
import type { Engine } from './engine.ts';
import { INNER_SLOTS } from './lanes/lane-control.ts';
import { laneName } from './names.ts';
import type { Destination, Site, Unresolved } from './sites/sites.ts';
import type { LaneView } from '../scheduling/lanes.ts';
import { DEFAULT_POOL } from '../storage/tables.ts';

/** The destination of a domain's mail, and the conditions under which it goes there. */
export interface Resolved {
  destination: Destination;
  /** The needs of the hosts, in the order they are tried. */
  needs: readonly ReturnType<typeof needOf>[];
  lane: LaneReport | null;
}

const orders = {
  fullest: (a: LaneView, b: LaneView): number => b.waiting - a.waiting || b.slots - a.slots,
  busiest: (a: LaneView, b: LaneView): number => b.slots - a.slots || b.waiting - a.waiting,
};

export class LaneReports {
  private readonly engine: Engine;

  constructor(engine: Engine) {
    this.engine = engine;
  }

  /** Returns at most `most` lanes, since thousands take too long, those with work first. Of the fullest at most half rest, with mail on disk. */
  lanes(most: number, first: 'fullest' | 'busiest'): Promise<LaneReport[]> {
    const { lanes, control } = this.engine;
    const known = lanes.views();
    const atWork = known.filter(({ waiting, slots }) => (first === 'fullest' ? waiting : slots) > 0);
    const all = (): Set<string> => new Set([...known.map(({ name }) => name), ...control.names().reverse()]);
    const views = atWork.length < most ? [...all()].map((name) => lanes.view(name)) : atWork;
    const resting = first === 'fullest' ? control.atRest().slice(0, most / 2) : [];
    const names = new Set([...resting, ...views.sort(orders[first]).map(({ name }) => name)]);
    return mapInSlices([...names].slice(0, most), (name) => this.reportOf(name));
  }

  /** Returns one lane, busy or not; null if it is not known. */
  lane(name: string): LaneReport | null {
    const report = this.engine.control.report(name);
    return report === null ? null : { ...report, ...this.viewOf(name) };
  }

  /** Returns the lanes of a site that are known, one for each source that mail has left from. */
  lanesOfSite(site: string): LaneReport[] {
    const { sources } = this.engine;
    const names = sources.named ? sources.list().map(({ name }) => laneName(site, name)) : [site];
    return names.flatMap((name) => this.lane(name) ?? []);
  }

  /** Returns the lane of a domain, as it was last known. If it is not, the domain is looked up for the next report. */
  laneOf(domain: string): string {
    const { sites, placing } = this.engine;
    const known = sites.lastKnown(domain);
    if (known === null || known.kind === 'unresolved') {
      if (sites.known(domain) === null) placing.lookUpForReports(domain);
      return '~unresolved';
    }
    if (known.kind === 'hold') return '~hold';
    return known.kind === 'site' ? known.name : placing.laneFor(known, null);
  }

  /** Returns what holds a mail on the way to its domain, and what it waits for, without asking DNS or a host. */
  async laneFacts(mail: MailOfLane): Promise<LaneFacts> {
    const pool = mail.stream == null ? null : await this.engine.poolOf(mail.account, mail.stream);
    return this.factsOfDestination(mail, pool);
  }

  async resolve(domain: string): Promise<Resolved> {
    const destination = await this.engine.sites.find(domain);
    if (destination.kind !== 'site') return { destination, needs: [], lane: null };
    const name = this.engine.placing.laneFor(destination, null);
    return {
      destination,
      needs: destination.hosts.map((host) => needOf(destination, host)),
      lane: this.lane(name),
    };
  }

  /** `pool`: that of the mail's stream, if it is known. */
  private factsOfDestination({ domain, account, stream, mark = null }: MailOfLane, pool: string | null): LaneFacts {
    const { sites, sources, holds, limits } = this.engine;
    const marked = mark === null ? null : (sources.holdOf(mark) ?? limits.counts.holdOf(mark));
    const known = sites.lastKnown(domain);
    if (known === null || known.kind === 'unresolved')
      return {
        held: marked,
        waits: dnsWaits(domain, known, sites.isAsking(domain) || this.engine.placing.isLookingUp(domain)),
      };
    if (known.kind === 'hold') return { held: marked, waits: [routeWait(known.route)] };
    if (known.kind !== 'site') return { held: marked, waits: [] };
    const held =
      holds.ofLane(known.name) ??
      marked ??
      (pool === null && sources.named ? sources.allAway() : sources.heldBy(pool ?? DEFAULT_POOL, known.name));
    return { held, waits: this.siteWaits(known, { account, domain, stream: stream ?? undefined }, pool) };
  }

  /** The workers of a lane whose mail needs no connection are not counted, since they use none. */
  private reportOf(name: string): LaneReport {
    const { waiting } = this.engine.lanes.view(name);
    return this.lane(name) ?? { ...blankLane(name), waiting, limit: INNER_SLOTS, cause: 'no network' };
  }

  /** Jobs that are put aside wait in the lane, too. */
  private viewOf(name: string): LaneView {
    const view = this.engine.lanes.view(name);
    return { ...view, waiting: view.waiting + this.engine.aside.count(name) };
  }

  /** Returns what a mail waits for by the source that sends it: if one of its pool may go on, only what that one waits for. */
  private siteWaits(site: Site, mail: MailKey, pool: string | null): readonly LaneWait[] {
    const { control, sources } = this.engine;
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

function dnsWaits(domain: string, known: Unresolved | null, isAsking: boolean): LaneWait[] {
  if (known !== null) {
    const { route, since, until } = known;
    const message = `DNS does not tell where mail for ${domain} goes: ${route.text}. It is asked again, and no attempt is spent.`;
    return [laneWait('dns_trouble', message, { since, until, by: 'dns', stops: true })];
  }
  return isAsking ? [laneWait('resolving', `The mail hosts of ${domain} are being looked up.`, { stops: true })] : [];
}

const routeWait = (route: string): LaneWait =>
  laneWait(
    'held',
    `The route of ${route === '*' ? 'all other domains (*)' : route} in delivery.routes holds its mail, whose time runs on. It goes when the route is another.`,
    { by: 'operator', stops: true },
  );
