/** Checks of the machine: versions, clock, disk, and the rights of files. */
import path from 'node:path';
import { isIP } from 'node:net';
import { isPostgresUrl } from '../../base/postgres-url.ts';
import { writeSize } from '../../config/kind.ts';
import { databaseFile, mailFolder } from '../../storage/database.ts';
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';
import { inWords } from '../sealed-secrets.ts';

const OLDEST_NODE = '20.19.0';
/** In older versions a reset of the write-ahead log at the wrong moment could lose a commit. */
const OLDEST_SQLITE = '3.51.3';

export async function versions({ machine, config }: Probes): Promise<readonly Verdict[]> {
  const node = machine.nodeVersion.replace(/^v/, '');
  // On PostgreSQL nothing is written to a SQLite file; the check of the database names that server's version.
  const sqlite = isPostgresUrl(config.storage.url) ? null : await machine.sqliteVersion();
  const faults: Verdict[] = [];
  if (isOlder(node, OLDEST_NODE))
    faults.push(
      failed(`Node.js is ${node}, and ${OLDEST_NODE} is needed`, 'Install Node.js 24, and the packages again: npm ci'),
    );
  if (sqlite !== null && isOlder(sqlite, OLDEST_SQLITE))
    faults.push(
      failed(
        `SQLite is ${sqlite}, which can lose a commit when its log is reset (before ${OLDEST_SQLITE})`,
        'Install the packages again, as package-lock.json names them: npm ci',
      ),
    );
  return orWell(faults, sqlite === null ? `Node.js ${node}` : `Node.js ${node}, SQLite ${sqlite}`);
}

function isOlder(version: string, than: string): boolean {
  const [have, need] = [version, than].map((text) => text.split('.').map((part) => Number.parseInt(part, 10)));
  for (const [at, wanted] of (need ?? []).entries()) {
    const found = have?.[at] ?? 0;
    if (found !== wanted) return !(found > wanted);
  }
  return false;
}

/** Signatures (DKIM, webhooks), one-time passwords and the retry schedule need a right clock. */
const FAR_MS = 60_000;
const OFF_MS = 5_000;
const CLOCK_CURE = 'Let a time service keep the clock: systemctl enable --now systemd-timesyncd (or chrony).';

export async function clock(probes: Probes): Promise<readonly Verdict[]> {
  const { store, clock: ours } = probes;
  const newest = store.kind === 'store' ? await store.newestAt() : null;
  const ahead = newest === null ? 0 : newest - ours.now();
  if (ahead > FAR_MS)
    return [
      failed(
        `the database has entries ${seconds(ahead)} from the future: the clock was set back`,
        `${CLOCK_CURE} Waiting mail goes on when the time has come.`,
      ),
    ];
  const time = await timeOf(probes);
  if (typeof time === 'string')
    return [
      warning(
        `the clock cannot be held against ${probes.config.doctor.timeServer}: ${time}`,
        'Nothing to do if another service keeps the clock (timedatectl tells); else let NTP (UDP 123) out.',
      ),
    ];
  const off = Math.abs(time);
  const why = `the clock is ${seconds(off)} ${time > 0 ? 'behind' : 'ahead'}`;
  if (off > FAR_MS) return [failed(why, CLOCK_CURE)];
  return [off > OFF_MS ? warning(why, CLOCK_CURE) : ok(`the clock is right within ${seconds(Math.max(off, 1))}`)];
}

const seconds = (ms: number): string => `${(Math.ceil(ms / 10) / 100).toString()} s`;

/** Returns how far the time server is ahead of us in milliseconds, or why that is unknown. */
async function timeOf({ config, resolver, network }: Probes): Promise<number | string> {
  const host = config.doctor.timeServer;
  const answer = isIP(host) > 0 ? null : await resolver.a(host);
  if (answer?.kind === 'trouble') return answer.text;
  const ip = answer === null ? host : answer.kind === 'found' ? answer.records[0] : undefined;
  if (ip === undefined) return 'it has no address in DNS';
  const time = await network.askTime(ip);
  return time.kind === 'answered' ? time.offsetMs : time.why;
}

/** The database grows into it within minutes, whatever `storage.minFreeBytes` says. */
const LEAST_FREE = 16 * 1024 * 1024;
/** A write-ahead log of this size means that a reader has kept it from being merged for hours. */
const LARGE_WAL = 256 * 1024 * 1024;

export async function disk({ config, machine }: Pick<Probes, 'config' | 'machine'>): Promise<readonly Verdict[]> {
  const { url } = config.storage;
  // Nothing can be written at all if the setting is smaller.
  const minFreeBytes = Math.max(config.storage.minFreeBytes, LEAST_FREE);
  const folder = mailFolder(config);
  const free = await machine.freeBytes(folder);
  const cure = `Free some, or give ${folder} a larger disk; \`retention\` says how long mail is kept.`;
  const faults: Verdict[] = [];
  if (free < LEAST_FREE)
    faults.push(
      failed(`${megabytes(free)} free: new mail is refused, and what happens to older mail cannot be written`, cure),
    );
  else if (free < minFreeBytes)
    faults.push(
      failed(
        `${megabytes(free)} free, below storage.minFreeBytes (${writeSize(minFreeBytes)}): new mail is refused`,
        cure,
      ),
    );
  else if (free < 2 * minFreeBytes)
    faults.push(warning(`${megabytes(free)} free; at ${writeSize(minFreeBytes)} new mail is refused`, cure));
  const file = databaseFile(url);
  const wal = file === null ? null : await machine.file(`${file}-wal`);
  if (wal !== null && wal.bytes > LARGE_WAL)
    faults.push(
      warning(
        `the write-ahead log has grown to ${megabytes(wal.bytes)}`,
        'Some program has kept the database open for reading for a long time: close it (lsof names it).',
      ),
    );
  return orWell(faults, `${megabytes(free)} free for ${folder}`);
}

const megabytes = (bytes: number): string => `${String(Math.floor(bytes / 2 ** 20))} MiB`;

/** The database contains all mail, so only the service may read it. */
export async function files({ config, machine }: Probes): Promise<readonly Verdict[]> {
  const { dataDir, storage } = config;
  const folder = await machine.file(dataDir);
  if (folder === null)
    return [warning(`there is no data folder ${dataDir} yet`, 'The first start makes it: posthorn serve')];
  const database = databaseFile(storage.url);
  const inside = [...(database === null ? [] : [database]), path.join(dataDir, KEY_FILE)];
  const faults: Verdict[] = [];
  if ((folder.mode & 0o007) !== 0)
    faults.push(
      failed(
        `${dataDir} is open to every user of this machine (mode ${octal(folder.mode)})`,
        `Run: chmod 750 ${dataDir}`,
      ),
    );
  for (const file of inside) {
    const facts = await machine.file(file);
    if (facts !== null && facts.uid !== folder.uid)
      faults.push(
        failed(
          `${file} belongs to user ${String(facts.uid)}, the data folder to user ${String(folder.uid)}`,
          `Run as root: chown ${String(folder.uid)} ${file}`,
        ),
      );
  }
  return orWell(faults, `${dataDir} and what is in it belong to the service alone`);
}

const KEY_FILE = 'secret.key';
const LOST_CURE =
  'Put the old file back from the backup: a new one does not open them. Where it is lost for good, say so in the file with a line "lost" and the id of the key, and make new secrets (docs/operating.md#the-data-folder).';

/** Without the right key file no mail and no webhook can be signed: the secrets in the database cannot be opened. */
export async function secretKey({ config, machine, store }: Probes): Promise<Verdict> {
  const file = path.join(config.dataDir, KEY_FILE);
  const facts = await machine.file(file);
  if (facts !== null && (facts.mode & 0o077) !== 0)
    return failed(`${file} may be read by others (mode ${octal(facts.mode)})`, `Run: chmod 600 ${file}`);
  const needed = store.kind === 'store' ? await store.sealedSecrets() : [];
  const held = readIds(machine);
  if (typeof held === 'string')
    return failed(held, needed.length === 0 ? 'Correct the file, or put the old one back from the backup.' : LOST_CURE);
  const lost = needed.filter(({ keyId }) => held?.includes(keyId) !== true);
  if (lost.length > 0)
    return failed(
      `${file} ${held === null ? 'is missing' : `lacks the key ${lost.map(({ keyId }) => keyId).join(', ')}`}: secrets in the database cannot be opened (${lost.map(inWords).join(', ')})`,
      LOST_CURE,
    );
  if (held !== null) return ok(`${file} opens what is sealed in the database`);
  // No start makes a new one beside a database, even if nothing is sealed yet.
  return store.kind === 'store'
    ? failed(
        `${file} is missing, and there is a database: the server does not start`,
        'Put the file back from where it is kept. If it is lost for good, docs/operating.md#the-data-folder tells how to go on.',
      )
    : ok('made at the first start');
}

function readIds(machine: Probes['machine']): readonly string[] | null | string {
  try {
    return machine.keyIds();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const octal = (mode: number): string => mode.toString(8).padStart(3, '0');
