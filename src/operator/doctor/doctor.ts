/** The doctor: its operation in the running server, and the same checks in a command without one. */
import { z } from 'zod';
import { each, many, maybe, text } from '../../api/record-schema.ts';
import { systemClock, type Clock } from '../../base/clock.ts';
import type { Config } from '../../config/schema.ts';
import { createResolver } from '../../net/resolver.ts';
import { databaseFile, openReader } from '../../storage/database.ts';
import { DatabaseRefusal } from '../../storage/mark.ts';
import { type OperatorDeps, serverRoute } from '../server-route.ts';
import { callServer, jsonIn } from '../door/client.ts';
import { checkFiles } from '../door/data-folder.ts';
import { socketPath } from '../door/socket.ts';
import { machineFault } from '../machine-fault.ts';
import {
  failed,
  verdictsOf,
  warning,
  type Check,
  type Missing,
  type Probes,
  type Verdict,
  createMachine,
  createNetwork,
} from './probes.ts';
import { storeProbes, books, oneClick, webhooks, database, nodes, domains } from './store.ts';
import { backups, certificate, clock, disk, files, secretKey, settings } from './machine-checks.ts';
import { blocklists, name } from './name.ts';
import { listeners, bounce, mx, outbound, dnssec, resolver } from './outbound.ts';

/** In the order of the report: the machine first, so that a cause comes before its consequences. */
const checks = {
  settings,
  files,
  secret_key: secretKey,
  disk,
  database,
  nodes,
  clock,
  listeners,
  certificate,
  resolver,
  dnssec,
  outbound,
  name,
  mx,
  bounce,
  blocklists,
  domains,
  one_click: oneClick,
  webhooks,
  books,
  backups,
} satisfies Record<string, (probes: Probes) => Check>;

export type CheckName = keyof typeof checks;
export const checkNames = Object.keys(checks) as CheckName[];

/** `checks`: only these. `dnssec`: try the DNS servers for DNSSEC in any case. */
const asked = z.strictObject({
  checks: z
    .array(z.enum(checkNames as [CheckName, ...CheckName[]]))
    .min(1)
    .max(100)
    .optional(),
  dnssec: z.boolean().optional(),
});
type Asked = z.output<typeof asked>;

/** One line of the doctor's report. A check may have several, one for each thing it found. */
const Finding = z.object({
  check: text(),
  status: z.enum(['ok', 'warning', 'failed']),
  why: text(),
  cure: maybe(),
  about: z.object({ object: z.enum(['domain', 'webhook']), ...each(text(), 'id', 'name', 'account_id') }).nullable(),
  copy: many(text()),
});
export type Finding = z.infer<typeof Finding>;

export const doctorOperations = {
  doctor: serverRoute({
    answer: z.object({ data: many(Finding) }),
    body: asked,
    async run(deps, { checks = checkNames, dnssec = false }) {
      return { data: await examine(serverProbes(deps, dnssec), checks) };
    },
  }),
};

/** Runs the checks in the running server, or in this process if none answers. */
export async function examineFrom(config: Config, { checks = checkNames, dnssec = false }: Asked): Promise<Finding[]> {
  const answer = await callServer(socketPath(config.dataDir), 'doctor', { body: { checks, dnssec } });
  // The answer is the result of the operation with this name.
  if (answer !== null) return ((await jsonIn(answer)) as { data: Finding[] }).data;
  const probes = await openProbes(config, dnssec);
  try {
    return await examine(probes, checks);
  } finally {
    await probes.close();
  }
}

function serverProbes(deps: OperatorDeps, wantsDnssec: boolean): Probes {
  const { config, clock, resolver, db } = deps;
  return {
    ...machineProbes(config, clock),
    resolver,
    wantsDnssec,
    store: storeProbes(db),
    server: { ...deps, kind: 'server', listeners: () => deps.listeners(), writeTrouble: () => db.commit.trouble },
  };
}

const machineProbes = (config: Config, clock: Clock): Pick<Probes, 'config' | 'clock' | 'machine' | 'network'> => ({
  config,
  clock,
  machine: createMachine(config),
  network: createNetwork({ clock }),
});

/** Makes probes without a server. A database that cannot be opened is a finding, not an error. Nothing is created or migrated. */
async function openProbes(config: Config, wantsDnssec: boolean): Promise<Probes & { close(): Promise<void> }> {
  const resolver = createResolver(
    { clock: systemClock },
    { servers: config.delivery.dnsServers, validating: config.delivery.dnssecResolver },
  );
  const opened = await openStore(config);
  return {
    ...machineProbes(config, systemClock),
    resolver,
    wantsDnssec,
    store: opened.kind === 'missing' ? opened : opened.store,
    server: { kind: 'missing', why: 'the server is not running', cure: 'Start it (posthorn serve) and ask again.' },
    async close() {
      await resolver.close();
      if (opened.kind === 'open') await opened.close();
    },
  };
}

type Opened = Missing | { kind: 'open'; store: ReturnType<typeof storeProbes>; close(): Promise<void> };

/** The cures of databases that are there and must not be used. */
const refusals: Readonly<Record<NonNullable<Missing['refusal']>, string>> = {
  moved: 'Set storage.url to the database that it was moved to.',
  unsuitable: 'Change what the line names, and start the server (posthorn serve).',
};

const isRefusal = (why: string): why is keyof typeof refusals => Object.hasOwn(refusals, why);

async function openStore(config: Config): Promise<Opened> {
  const file = databaseFile(config.storage.url);
  try {
    if (file !== null) checkFiles(file, false);
    const reader = await openReader(config.storage);
    if (reader.waiting.length === 0) return { kind: 'open', store: storeProbes(reader), close: () => reader.close() };
    await reader.close();
    return { kind: 'missing', why: `the database lacks ${reader.waiting.join(', ')}`, cure: 'Run: posthorn migrate' };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    if (error instanceof DatabaseRefusal && isRefusal(error.why))
      return { kind: 'missing', why, refusal: error.why, cure: refusals[error.why] };
    const cure = machineFault(error, config.dataDir)?.cure;
    return { kind: 'missing', why, cure: cure ?? 'Start the server (posthorn serve), or run this as its user.' };
  }
}

const TIMEOUT_MS = 20_000;
/** Longer limits of checks whose work grows with the installation. */
const TIMEOUTS: Partial<Record<CheckName, number>> = {
  mx: 60_000,
  books: 300_000,
  domains: 120_000,
};

/** Runs these checks at the same time and returns the findings in the order of the names. Never rejects. */
export async function examine(probes: Probes, names: readonly CheckName[]): Promise<Finding[]> {
  const found = await Promise.all(names.map((one) => run(probes, one)));
  return found.flat();
}

async function run(probes: Probes, check: CheckName): Promise<Finding[]> {
  const timeout = TIMEOUTS[check] ?? TIMEOUT_MS;
  const ran = verdictsOf(checks[check](probes)).catch((error: unknown) => [broken(probes, error)]);
  const verdicts = await withTimeout(probes.clock, timeout, ran);
  return verdicts.map((one) => ({ check, ...one, about: one.about ?? null, copy: one.copy ?? [] }));
}

function broken({ config }: Pick<Probes, 'config'>, error: unknown): Verdict {
  const fault = machineFault(error, config.dataDir);
  if (fault !== null) return failed(fault.line, fault.cure);
  return failed(
    `the check itself failed: ${error instanceof Error ? error.message : String(error)}`,
    'Report it, with the log.',
  );
}

/** Resolves with a warning after `ms`. The work continues, and its result is dropped. */
function withTimeout(clock: Clock, ms: number, work: Promise<readonly Verdict[]>): Promise<readonly Verdict[]> {
  return new Promise((resolve) => {
    const timer = clock.after(ms, () => {
      const cure = 'Ask again when there is less to do; the other lines may say what is slow.';
      resolve([warning(`no result within ${String(ms / 1000)} s`, cure)]);
    });
    void work.then((verdicts) => {
      timer.cancel();
      resolve(verdicts);
    });
  });
}
