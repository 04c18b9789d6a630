/** Makes the real probes, for the running server and for a command without one. */
import { systemClock, type Clock } from '../../base/clock.ts';
import { createResolver } from '../../net/resolver.ts';
import type { Config } from '../../config/schema.ts';
import { databaseFile, openReader } from '../../storage/database.ts';
import { DatabaseRefusal } from '../../storage/mark.ts';
import { checkFiles } from '../door/data-folder.ts';
import type { OperatorDeps } from '../deps.ts';
import { createMachine } from './machine.ts';
import { createNetwork } from './network.ts';
import type { Missing, Probes } from './probes.ts';
import { storageTrouble } from './storage-trouble.ts';
import { storeProbes } from './store.ts';

/** Makes the probes of the running server. */
export function serverProbes(deps: OperatorDeps, { wantsDnssec }: { wantsDnssec: boolean }): Probes {
  const { config, clock, resolver, db } = deps;
  return {
    ...machineProbes(config, clock),
    resolver,
    wantsDnssec,
    store: storeProbes(db),
    server: {
      kind: 'server',
      listeners: () => deps.listeners(),
      selfTest: deps.selfTest,
      settings: deps.settings,
      nodes: deps.nodes,
      unknownProxies: deps.unknownProxies,
      writeTrouble: () => db.commit.trouble,
    },
  };
}

const machineProbes = (config: Config, clock: Clock): Pick<Probes, 'config' | 'clock' | 'machine' | 'network'> => ({
  config,
  clock,
  machine: createMachine(config),
  network: createNetwork({ clock }),
});

/** Makes probes without a server. A database that cannot be opened is a finding, not an error. Nothing is created or migrated. */
export async function openProbes(
  config: Config,
  { wantsDnssec }: { wantsDnssec: boolean },
): Promise<Probes & { close(): Promise<void> }> {
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

async function openStore(config: Config): Promise<Opened> {
  const file = databaseFile(config.storage.url);
  try {
    if (file !== null) checkFiles(file, false);
    const reader = await openReader(config.storage);
    if (reader.waiting.length === 0) return { kind: 'open', store: storeProbes(reader), close: () => reader.close() };
    await reader.close();
    return { kind: 'missing', why: `the database lacks ${reader.waiting.join(', ')}`, cure: 'Run: posthorn migrate' };
  } catch (error) {
    const why = messageOf(error);
    const refusal = error instanceof DatabaseRefusal ? error.why : undefined;
    if (refusal === 'moved')
      return { kind: 'missing', why, refusal, cure: 'Set storage.url to the database that it was moved to.' };
    if (refusal === 'unfinished')
      return {
        kind: 'missing',
        why,
        refusal,
        cure: 'Repeat the command, or set storage.url to the database that it copies.',
      };
    if (refusal === 'unsuitable')
      return {
        kind: 'missing',
        why,
        refusal,
        cure: 'Change what the line names, and start the server (posthorn serve).',
      };
    const cure = storageTrouble(error, config.storage)?.cure;
    return { kind: 'missing', why, cure: cure ?? 'Start the server (posthorn serve), or run this as its user.' };
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
