/**
 * The whole program in this process, on a folder of its own, with time, DNS and chance in the test's hands. Keys and domains
 * are made the way the operator makes them, over the control socket; everything else goes over HTTP.
 */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Why } from '../../../src/client/types.ts';
import { startApp, type App } from '../../../src/app.ts';
import type { Log } from '../../../src/base/log.ts';
import type { Timer } from '../../../src/base/clock.ts';
import type { Config } from '../../../src/config/schema.ts';
import { readSettings } from '../../../src/config/load.ts';
import { reachOperator, type Operator } from '../../../src/operator/door/operator.ts';
import type { DeliveryRow } from '../../../src/storage/tables.ts';
import { answered } from './answered.ts';
import { contractOf, type Contract } from './contract.ts';
import { FakeClock } from '../fakes/fake-clock.ts';
import {
  copyDatabase,
  databaseForFolder,
  dropDatabaseOf,
  isOnPostgres,
  leaveDatabase,
  shareDatabase,
  urlOfFolder,
} from './postgres.ts';
import { FakeResolver } from '../fakes/fake-resolver.ts';
import type { Zones } from '../fakes/zones.ts';

/** A clock that also tells when a caller waits: then a test may let that time pass. */
export class TestClock extends FakeClock {
  private armings: { ms: number; resolve: () => void }[] = [];

  override after(ms: number, run: () => void): Timer {
    const timer = super.after(ms, run);
    const heard = this.armings.filter((arming) => arming.ms === ms);
    this.armings = this.armings.filter((arming) => arming.ms !== ms);
    for (const { resolve } of heard) resolve();
    return timer;
  }

  /** Resolves when the next timer of exactly this length is set. */
  armed(ms: number): Promise<void> {
    return new Promise((resolve) => this.armings.push({ ms, resolve }));
  }
}

export interface Answer<Body = Record<string, unknown>> {
  status: number;
  headers: Headers;
  body: Body;
  text: string;
}

export interface CallOptions {
  key?: string | null;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** The members of an event record that tests look at. */
export interface SeenEvent {
  id: string;
  type: string;
  sequence: number;
  timestamp: string;
  test: boolean;
  data: {
    message_id: string;
    recipient: string;
    recipient_type: string;
    status: string;
    batch_id: string | null;
    tags: string[];
    rfc_message_id: string;
    metadata: Record<string, string>;
    [type: string]: unknown;
  };
}

export interface SeenMessage {
  id: string;
  status: string;
  status_at: string;
  rfc_message_id: string;
  test: boolean;
  last_event: { type: string; timestamp: string } | null;
  engagement: Record<string, unknown>;
  recipients: {
    email: string;
    type: string;
    status: string;
    attempt_count: number;
    next_attempt_at: string | null;
    smtp: { code: number | null; reply: string | null } | null;
  }[];
  attempts: {
    outcome: string;
    number: number;
    started_at: string;
    smtp_code: number | null;
    enhanced_code: string | null;
    smtp_reply: string | null;
    class: string | null;
    reason: string | null;
    mx: string | null;
    next_attempt_at: string | null;
  }[];
  events: SeenEvent[];
}

export interface TestAppOptions {
  /** An existing data folder, which is then kept. */
  folder?: string;
  /** The first node, whose database and keys this one uses. Only on PostgreSQL. */
  beside?: Pick<TestApp, 'folder'>;
  /** Settings over the harness's own, as the YAML file has them. */
  settings?: Record<string, unknown>;
  /** Port on which mail hosts are dialled. */
  mailPort?: number;
  clock?: TestClock;
  resolver?: FakeResolver;
  zones?: Zones;
  /** PEM certificates that mail hosts and policy servers may chain to. */
  ca?: string;
  /** Where MTA-STS policies are served. */
  stsPort?: number;
  /** The settings as they are written after the start. */
  readSettings?: () => Config;
  /** The flags that Node.js has. */
  nodeFlags?: ReadonlySet<string>;
}

export interface TestApp {
  readonly app: App;
  readonly url: string;
  readonly folder: string;
  readonly config: Config;
  readonly clock: TestClock;
  readonly resolver: FakeResolver;
  readonly logged: { level: string; [field: string]: unknown }[];
  readonly operator: Operator;
  /** A live key with every scope that the tests need. */
  readonly key: string;
  readonly keyId: string;
  request<Body = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    options?: CallOptions,
  ): Promise<Answer<Body>>;
  get<Body = Record<string, unknown>>(path: string, options?: CallOptions): Promise<Answer<Body>>;
  /** Sends and expects 202; gives the record. */
  send(
    fields?: Record<string, unknown>,
    options?: CallOptions,
  ): Promise<{ id: string; status: string; rfc_message_id: string }>;
  message(id: string): Promise<SeenMessage>;
  /** Follows the event log, opt-in kinds included, by long poll. */
  follow(options?: CallOptions): EventFollower;
  /** Resolves when no delivery is claimed and none that may be tried is due. */
  settled(): Promise<void>;
  /** Returns why the message's first recipient waits. */
  why(id: string): Promise<Why['recipients'][number]>;
  /** Resolves when the message's delivery is marked as held. */
  held(id: string): Promise<DeliveryRow>;
  /** Checks that the books balance. */
  balanced(): Promise<void>;
  /** Lets time pass until the message's next attempt is due, and waits for what comes of it. */
  nextAttempt(id: string): Promise<SeenMessage>;
  stop(): Promise<void>;
}

export interface EventFollower {
  readonly seen: SeenEvent[];
  /** Reads on until `enough` holds for all that was seen since the beginning. */
  until(enough: (seen: readonly SeenEvent[]) => boolean): Promise<SeenEvent[]>;
  /** The events of one message up to and with one of this type. */
  of(messageId: string, lastType: string): Promise<SeenEvent[]>;
}

const ALL_TYPES = 'sent,delivered,opened,clicked,bounced,complained,deferred,suppressed,failed,unsubscribed,received';
export const ALL_SCOPES = [
  'send',
  'campaign',
  'message:read',
  'event:read',
  'event:engagement',
  'domain',
  'suppression',
  'template',
  'message:content',
  'message:cancel',
  'message:delete',
  'campaign:read',
  'stream',
  'key',
  'audit:read',
  'stats:read',
  'settings',
  'webhook',
];

/** Mail hosts at 127.0.0.1 for these domains, each a site of its own. */
export function zonesFor(...domains: string[]): Zones {
  return Object.fromEntries(
    domains.flatMap((domain) => [
      [`${domain} MX`, [`10 mx.${domain}`]],
      [`mx.${domain} A`, ['127.0.0.1']],
    ]),
  );
}

/** Makes what a new data folder needs outside of it, before its settings are read. */
export async function makeStore(folder: string): Promise<void> {
  if (isOnPostgres) await databaseForFolder(folder);
}

export const newFolder = (): string => mkdtempSync(path.join(tmpdir(), 'ph-'));

export function configFor(folder: string, mailPort: number, settings: Record<string, unknown> = {}): Config {
  const storage = isOnPostgres ? { url: urlOfFolder(folder) } : {};
  const own = {
    dataDir: folder,
    ...settings,
    http: { port: 0, ...(settings['http'] as object | undefined) },
    storage: { ...storage, ...(settings['storage'] as object | undefined) },
    smtp: {
      ...(settings['smtp'] as object | undefined),
      hostname: 'mail.posthorn.test',
      mx: { host: '127.0.0.1', port: 0, ...((settings['smtp'] as { mx?: object } | undefined)?.mx ?? {}) },
      submission: {
        port: 0,
        tlsPort: 0,
        ...((settings['smtp'] as { submission?: object } | undefined)?.submission ?? {}),
      },
    },
    delivery: { allowPrivate: true, remotePort: mailPort, ...(settings['delivery'] as object | undefined) },
  };
  const reading = readSettings(own, {
    cwd: folder,
    privileged: false,
    terminal: false,
    hostname: 'mail.posthorn.test',
  });
  if (reading.kind === 'bad') throw new Error(reading.mistakes.join('\n'));
  return reading.config;
}

/** Returns whether this node knows another that takes work: one that starts does not yet. */
export const hasWorkingOthers = ({ app: { db } }: Pick<TestApp, 'app'>): boolean =>
  db.nodes?.list().some(({ epoch, isDraining }) => epoch !== db.nodes?.epoch && !isDraining) === true;

export async function startTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const made = await template();
  const folder = options.folder ?? newFolder();
  if (options.beside !== undefined) shareDatabase(options.beside.folder, folder);
  if (isOnPostgres) await prepareOnPostgres(made.folder, folder);
  else if (!existsSync(path.join(folder, 'posthorn.db'))) await copyData(made.folder, folder);
  const clock = options.clock ?? new TestClock();
  const resolver = options.resolver ?? new FakeResolver(options.zones);
  const config = configFor(folder, options.mailPort ?? 25, options.settings);
  const logged: TestApp['logged'] = [];
  const app = await startApp(config, {
    clock,
    resolver,
    log: collector(logged),
    random: () => 0.5,
    ...(options.ca === undefined ? {} : { ca: options.ca }),
    ...(options.stsPort === undefined ? {} : { stsPort: options.stsPort }),
    ...(options.readSettings === undefined ? {} : { readSettings: options.readSettings }),
    ...(options.nodeFlags === undefined ? {} : { nodeFlags: options.nodeFlags }),
  });
  const operator = reachOperator(config);
  const { key, keyId } = made;
  const request = requester(app.url, key, made.contract);

  const testApp: TestApp = {
    app,
    url: app.url,
    folder,
    config,
    clock,
    resolver,
    logged,
    operator: { ...operator, call: async (name, body) => answered(name, await operator.call(name, body)) },
    key,
    keyId,
    request,
    get: (where, more) => request('GET', where, undefined, more),
    async send(fields = {}, more = {}) {
      const body = {
        from: 'Acme <hi@acme.test>',
        to: 'ana@dest.test',
        subject: 'Welcome',
        text: 'Good day.',
        ...fields,
      };
      const answer = await request<{ id: string; status: string; rfc_message_id: string }>(
        'POST',
        '/v1/messages',
        body,
        more,
      );
      assert.equal(answer.status, 202, answer.text);
      return answer.body;
    },
    async message(id) {
      const answer = await request<SeenMessage>('GET', `/v1/messages/${id}`);
      assert.equal(answer.status, 200, answer.text);
      return answer.body;
    },
    follow: (more) => followEvents(request, more),
    settled: () => settled(app, clock),
    async why(id) {
      const [first] = (await operator.ask<Why>('explainMessage', { params: { id } })).recipients;
      return first ?? assert.fail(`${id} has no recipient`);
    },
    async held(id) {
      for (;;) {
        const [row] = await app.db.prepared.all<DeliveryRow>('SELECT * FROM deliveries WHERE message_id = ?', [id]);
        if (row?.held_by != null) return row;
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    async balanced() {
      const books = await operator.call('books', {});
      assert.ok(books.balanced, books.faults.join());
    },
    async nextAttempt(id) {
      const { recipients } = await testApp.message(id);
      const next = recipients[0]?.next_attempt_at;
      const [row] = await app.db.prepared.all<DeliveryRow>('SELECT * FROM deliveries WHERE message_id = ?', [id]);
      // Where no attempt is planned any more it is given up then.
      const at = next == null ? row?.due_at : Date.parse(next);
      assert.ok(at != null, 'nothing is planned');
      clock.advance(Math.max(0, at - clock.now()));
      await testApp.settled();
      return testApp.message(id);
    },
    async stop() {
      await operator.close();
      await app.stop();
      if (options.folder === undefined) {
        rmSync(folder, { recursive: true, force: true });
        if (options.beside !== undefined) leaveDatabase(folder);
        else if (isOnPostgres) await dropDatabaseOf(folder);
      }
    },
  };
  return testApp;
}

/** Gives a folder that is new a copy of the template's database, and its keys. */
async function prepareOnPostgres(template: string, folder: string): Promise<void> {
  await databaseForFolder(folder, template);
  const key = path.join(folder, 'secret.key');
  if (!existsSync(key)) copyFileSync(path.join(template, 'secret.key'), key);
}

interface Template {
  folder: string;
  key: string;
  keyId: string;
  contract: Contract;
}

let made: Promise<Template> | null = null;

/** A data folder with a key and the domain acme.test: making DKIM keys takes longer than most tests. */
function template(): Promise<Template> {
  return (made ??= makeTemplate());
}

async function makeTemplate(): Promise<Template> {
  const folder = newFolder();
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true });
  });
  await makeStore(folder);
  const config = configFor(folder, 25);
  // A minute before any test begins: in the same millisecond, its ids could sort after those that a test makes.
  const clock = new TestClock(new TestClock().now() - 60_000);
  const app = await startApp(config, { clock, resolver: new FakeResolver(), log: collector([]) });
  const operator = reachOperator(config);
  const { id: keyId, key } = await operator.ask<{ id: string; key: string }>('createKey', {
    body: { name: 'journey', scopes: ALL_SCOPES },
  });
  await operator.ask('createDomain', { body: { name: 'acme.test', trusted: true } });
  const document = (await (await fetch(`${app.url}/v1/openapi.json`)).json()) as Record<string, unknown>;
  await operator.close();
  await app.stop();
  return { folder, key, keyId, contract: contractOf(document) };
}

/** Copies a data folder as it is at this moment: of a running program that is the state that a power cut would leave. */
export async function copyData(from: string, to: string): Promise<void> {
  if (isOnPostgres) await copyDatabase(from, to);
  for (const name of ['posthorn.db', 'posthorn.db-wal', 'secret.key']) {
    if (existsSync(path.join(from, name))) copyFileSync(path.join(from, name), path.join(to, name));
  }
}

function collector(lines: TestApp['logged']): Log {
  const at =
    (level: string): Log['info'] =>
    (fields, message) => {
      lines.push({ level, message, ...fields });
    };
  const log: Log = { debug: () => undefined, info: at('info'), warn: at('warn'), error: at('error'), child: () => log };
  return log;
}

/** Each answer is held against the OpenAPI document: one that it does not promise fails the test that asked. */
function requester(url: string, usualKey: string, contract: Contract): TestApp['request'] {
  const request = async (
    method: string,
    where: string,
    body?: unknown,
    options: CallOptions = {},
  ): Promise<Answer<unknown>> => {
    const { key = usualKey, headers = {}, signal } = options;
    const response = await fetch(`${url}${where}`, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
    const text = await response.text();
    const seen = { status: response.status, text, header: (name: string) => response.headers.get(name) };
    assert.deepEqual(contract.breaches(method, where, seen), []);
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? (JSON.parse(text) as unknown) : null,
    };
  };
  // The caller says what it expects the body to be.
  return request as TestApp['request'];
}

function followEvents(request: TestApp['request'], options?: CallOptions): EventFollower {
  const seen: SeenEvent[] = [];
  let after = '';
  const follower: EventFollower = {
    seen,
    async until(enough) {
      while (!enough(seen)) {
        const where = `/v1/events?type=${ALL_TYPES}&limit=1000&wait=30${after === '' ? '' : `&after=${after}`}`;
        const { status, text, body } = await request<{ data: SeenEvent[]; next_cursor: string }>(
          'GET',
          where,
          undefined,
          options,
        );
        assert.equal(status, 200, text);
        seen.push(...body.data);
        after = body.next_cursor;
      }
      return seen;
    },
    async of(messageId, lastType) {
      const isOurs = ({ data }: SeenEvent): boolean => data.message_id === messageId;
      await follower.until((all) => all.some((event) => isOurs(event) && event.type === lastType));
      return seen.filter(isOurs);
    },
  };
  return follower;
}

/** Each look is a query, so the loop turns in between; nothing sleeps. */
async function settled({ db }: App, clock: TestClock): Promise<void> {
  for (;;) {
    const [row] = await db.prepared.all<{ n: number }>(
      'SELECT COUNT(*) AS n FROM deliveries WHERE due_at IS NOT NULL AND (due_at <= ? OR claim_epoch IS NOT NULL)',
      [clock.now()],
    );
    if (row?.n === 0) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
