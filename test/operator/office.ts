/** Where the operator's operations work in a test: a real database, a clock and DNS that the test decides about. */
import { createAccountPauses, ensureDefaultAccount } from '../../src/accounts/account-store.ts';
import { createStreams } from '../../src/accounts/stream-store.ts';
import { contentOf, createInside, operatorCaller } from '../../src/api/inside.ts';
import type { Route } from '../../src/api/route.ts';
import { apiRoutes } from '../../src/api/routes.ts';
import type { ApiDeps } from '../../src/api/server.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import type { Log, LogFields } from '../../src/base/log.ts';
import type { Domain } from '../../src/client/types.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { createDomainDirectory } from '../../src/domains/domain-directory.ts';
import type { Caller } from '../../src/keys/caller.ts';
import type { AcceptDeps } from '../../src/messages/accept/accept.ts';
import type { DeliveryChange } from '../../src/messages/delivery/delivery.ts';
import type { DueHint } from '../../src/messages/delivery/due-hint.ts';
import { createHolds, type Hold } from '../../src/messages/delivery/holds.ts';
import { createRecorder } from '../../src/messages/delivery/record.ts';
import type { LaneWait, LaneChange, LaneReport, SourceReport } from '../../src/messages/delivery/why.ts';
import { LimitBook } from '../../src/messages/limits/book.ts';
import { createTranscripts } from '../../src/mta/attempt/transcripts.ts';
import type { Resolved } from '../../src/mta/lane-reports.ts';
import type { OperatorDeps, StoreDeps } from '../../src/operator/server-route.ts';
import { serveControl, type Control } from '../../src/operator/door/control.ts';
import { callerOf } from '../../src/operator/door/operator-caller.ts';
import type { AskedOf } from '../../src/operator/door/operator.ts';
import { serverRoutes, type ArgsOf, type OperationName, type ResultOf } from '../../src/operator/routes.ts';
import { createNotifier } from '../../src/scheduling/notifier.ts';
import { loneNode } from '../../src/storage/nodes.ts';
import type { AuditRow } from '../../src/storage/tables.ts';
import { findSuppressed } from '../../src/suppressions/suppression-store.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import { answered } from '../support/harness/answered.ts';
import { server } from '../support/harness/certificate.ts';
import { openTempDatabase } from '../support/harness/temp-database.ts';

export class Office {
  readonly clock = new FakeClock();
  readonly resolver = new FakeResolver();
  readonly hints: DueHint[] = [];
  readonly forgotten: string[] = [];
  readonly logged: LogFields[] = [];
  lanes: LaneReport[] = [];
  /** The lane of a domain. */
  lane = (domain: string): string => `mx.${domain}`;
  sources: SourceReport[] = [];
  /** Domains whose mail was to be tried; `*`: all. */
  readonly tried: string[] = [];
  /** The records of the delivery engine about every lane. */
  waits: LaneWait[] = [];
  held: Hold | null = null;
  changes: LaneChange[] = [];
  resolved: Resolved = { destination: { kind: 'discard' }, needs: [], lane: null };
  readonly config: Config;
  readonly deps: OperatorDeps;
  /** The routes of the API. */
  readonly routes: readonly Route[];
  readonly folder: string;
  readonly close: () => Promise<void>;

  private constructor(temp: Awaited<ReturnType<typeof openTempDatabase>>) {
    const { db, folder } = temp;
    const { clock } = this;
    this.folder = folder;
    this.close = () => temp.close();
    this.config = configOf(folder);
    const deliveries = createNotifier<readonly DueHint[]>();
    deliveries.listen((hints) => this.hints.push(...hints));
    const tries = createNotifier<readonly string[]>();
    tries.listen((domains) => void this.tried.push(...domains));
    const notifiers = { deliveries, events: createNotifier(), holds: createNotifier(), tries };
    const streams = createStreams({ db, clock });
    const directory = createDomainDirectory({ db, clock });
    const note = (fields: LogFields): void => void this.logged.push(fields);
    const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log };
    const limitBook = new LimitBook(
      { db, clock, log, announce: () => undefined, changed: () => undefined },
      { node: null },
    );
    const accept: AcceptDeps = {
      commit: db.commit,
      clock,
      notifiers,
      hasRoom: () => true,
      retry: { maxAge: this.config.delivery.maxAge, rules: [] },
      simulatorDomain: this.config.simulator.domain,
      findStream: (accountId, slug) => streams.find(accountId, slug),
      trackingRule: () => Promise.resolve({ opens: false, clicks: false, base: this.config.http.publicUrl }),
      isVerified: (accountId, domain) => directory.isVerified(accountId, domain),
      findSuppressed: (questions) => findSuppressed(db.prepared, clock.now(), questions),
    };
    const deps: Omit<OperatorDeps, 'inside'> = {
      db,
      clock,
      log,
      notifiers,
      resolver: this.resolver,
      config: this.config,
      keyring: openKeyring(folder),
      recorder: createRecorder({ commit: db.commit, clock, written: () => undefined }),
      listeners: () => [],
      unknownProxies: () => [],
      settings: () => ({ kind: 'in_force' }),
      certificate: {
        look: () => undefined,
        state: () => ({ file: 'tls.pem', cert: server.cert, fault: null }),
      },
      selfTest: () => Promise.resolve({ ok: true, why: null, ms: 1 }),
      handIn: () => Promise.resolve({ taken: false, reply: '550 5.7.1 we do not relay' }),
      mta: {
        reports: {
          resolve: () => Promise.resolve(this.resolved),
          lanes: (most: number) => Promise.resolve(this.lanes.slice(0, most)),
          lanesOfSite: (site) => this.lanes.filter(({ name }) => name === site || name.startsWith(`${site}/`)),
          lane: (name) => {
            const lane = this.lanes.find((one) => one.name === name);
            return lane === undefined ? null : { ...lane, changes: this.changes };
          },
          laneOf: (domain: string) => this.lane(domain),
          laneFacts: () => Promise.resolve({ waits: this.waits, held: this.held }),
        },
        sources: { list: () => this.sources },
        unblock: () => Promise.resolve(),
        transcripts: createTranscripts({ clock }),
      },
      nodes: loneNode(1, { name: 'office', version: 'test', facts: '{}', since: clock.now() }),
      owners: { ownerOf: () => null },
      laneFacts: (mails) => Promise.resolve(mails.map(() => ({ waits: this.waits, held: this.held }))),
      limits: limitBook,
      strangerLines: { notKept: 0 },
      holds: createHolds({ clock, book: limitBook, pauses: createAccountPauses({ db, clock }), streams, directory }),
    };
    const { keyring, recorder, holds } = deps;
    const { smtp, limits, retention, domains } = this.config;
    this.routes = apiRoutes({
      db,
      clock,
      log,
      keyring,
      accept,
      mailDraft: () => Promise.reject(new Error('no complete mail comes here')),
      limits,
      retention,
      tail: {} as never,
      resolver: this.resolver,
      recorder,
      notifiers,
      retry: accept.retry,
      holdOf: holds.of,
      laneFacts: deps.laneFacts,
      wireBytes: () => Promise.resolve({ kind: 'none', why: 'it is a test' }),
      requestsWritten: () => Promise.resolve(),
      planOf: () => null,
      usedBy: () => Promise.resolve({ today: 0, thisMonth: 0 }),
      changes: {
        settingsChanged: () => undefined,
        streamChanged: streams.forget,
        keyChanged: (publicId) => {
          this.forgotten.push(publicId);
          return Promise.resolve();
        },
        domainChanged: (name) => {
          this.forgotten.push(name);
          directory.forget(name);
        },
        webhookChanged: (id) => void this.forgotten.push(id),
      },
      vetUrl: (href) => Promise.resolve({ kind: 'ok', href }),
      smtputf8: true,
      clientPackage: { version: '1.0.0', files: [], kept: this.config.dataDir },
      findStream: (accountId, slug) => streams.find(accountId, slug),
      hostname: smtp.hostname,
      trackingTarget: null,
      domainGraceMs: domains.grace,
      // Nothing here asks for these.
      mailViewer: {} as never,
      renderer: {} as never,
      keys: [],
      hits: {} as never,
      publicHost: 'mail.test',
      findDomain: (name) => directory.find(name),
      testWebhook: {} as never,
    });
    this.deps = { ...deps, inside: createInside({ clock, commit: db.commit }, this.routes) };
  }

  static async open(): Promise<Office> {
    const office = new Office(await openTempDatabase());
    await ensureDefaultAccount(office.deps);
    return office;
  }

  /** Performs an operation with right arguments. */
  async run<Name extends OperationName>(name: Name, args: ArgsOf<Name>): Promise<ResultOf<Name>> {
    return (await this.perform(operatorCaller(), name, { body: args as object })) as ResultOf<Name>;
  }

  /** Performs an operation of the API or of the server for this caller. */
  async perform(
    caller: Caller,
    name: string,
    asked: Omit<AskedOf, 'account'>,
    deps: StoreDeps = this.deps,
  ): Promise<unknown> {
    const { query = {}, ...others } = asked;
    const texts = Object.fromEntries(
      Object.entries(query).map(([key, value]) => [key, value === undefined ? null : String(value)]),
    );
    const isOperator = caller.isOperator === true;
    const asking = { caller, userAgent: isOperator ? null : 'test' };
    const routes = [...this.routes, ...serverRoutes(deps)];
    const inside = createInside({ clock: this.clock, commit: deps.db.commit }, routes);
    return answered(name, contentOf(await inside.ask(asking, name, { ...others, query: texts })));
  }

  /** Serves the control socket in this folder. */
  serve(folder = this.folder, parts: Partial<OperatorDeps> = {}): Promise<Control> {
    const { clock } = this;
    const deps = { ...this.deps, ...parts, config: { ...this.config, dataDir: folder } };
    const routes = [...this.routes, ...serverRoutes(deps)];
    const settings = { publicUrl: this.config.http.publicUrl, version: 'test', trustedProxies: [] };
    const api = { clock, log: deps.log, settings, idempotency: {} as never } as unknown as ApiDeps;
    return serveControl(deps, { api, routes, inside: createInside({ clock, commit: deps.db.commit }, routes) });
  }

  /** Performs an operation that has an HTTP door, as the command line does. */
  async ask<Body>(operationId: string, asked: AskedOf = {}): Promise<Body> {
    const { account, ...others } = asked;
    const caller = await callerOf(this.deps, false, { account, params: asked.params ?? {} });
    return (await this.perform(caller, operationId, others)) as Body;
  }

  /** Sends a mail from a trusted domain; returns the message's id. */
  async mail(
    to: string,
    fields: { subject?: string; send_at?: string; stream?: string; tags?: string[] } = {},
  ): Promise<string> {
    const domain = 'sender.test';
    const { data } = await this.ask<{ data: Domain[] }>('listDomains', { query: { status: 'any' } });
    if (!data.some(({ name }) => name === domain))
      await this.ask('createDomain', { body: { name: domain, trusted: true } });
    const { id } = await this.ask<{ id: string }>('sendMessage', {
      body: { from: `a@${domain}`, to, subject: 'Hello', text: 'x', ...fields },
    });
    return id;
  }

  /** The changes to the deliveries of a message, one after the other. */
  async happen(messageId: string, ...changes: DeliveryChange[]): Promise<void> {
    const rows = (await this.deps.db.reader('deliveries').where({ message_id: messageId })) as { id: string }[];
    for (const change of changes) {
      await this.deps.recorder.record(rows.map(({ id }) => ({ deliveryId: id, change })));
    }
  }

  /** A first try that the other side puts off until `retryAt`. */
  async defer(messageId: string, retryAt: number): Promise<void> {
    const now = this.clock.now();
    await this.happen(
      messageId,
      { kind: 'claimed', epoch: 1, leaseUntil: now + 60_000 },
      {
        kind: 'outcome',
        epoch: 1,
        attempt: 1,
        outcome: {
          kind: 'deferred',
          retryAt,
          verdict: { class: 'soft', reason: 'mailbox_full' },
          facts: {
            startedAt: now,
            endedAt: now + 120,
            mx: 'mx1.dest.test',
            ip: '192.0.2.25',
            source: null,
            tls: null,
            timings: { dns: 4, connect: 20 },
            smtpCode: 452,
            enhancedCode: '4.2.2',
            smtpReply: '4.2.2 mailbox full',
          },
        },
      },
    );
  }

  async audit(): Promise<AuditRow[]> {
    return (await this.deps.db.reader('audit').orderBy('id')) as AuditRow[];
  }
}

/** Settings as a server in this folder has them. */
export function configOf(folder: string): Config {
  const env = { POSTHORN_DATA_DIR: folder, POSTHORN_SMTP__HOSTNAME: 'mail.example.com' };
  return loadConfig({ cwd: folder, privileged: false, terminal: false, hostname: 'test.example.com', env }).config;
}
