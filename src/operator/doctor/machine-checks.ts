/** Checks of the machine: its clock, disk, files and certificate, and the settings in force. */
import path from 'node:path';
import { isIP } from 'node:net';
import { writeSize } from '../../config/kind.ts';
import { databaseFile, mailFolder } from '../../storage/database.ts';
import { failed, ok, warning, type Check, type Probes, type Verdict } from './probes.ts';
import { certificateNames } from '../../config/certificate.ts';
import { DAY_MS, HOUR_MS } from '../../base/time.ts';
import type { SettingsState } from '../../config/settings-state.ts';
import { absentSources, linksFaults } from '../setup-warnings.ts';

/** Signatures (DKIM, webhooks), one-time passwords and the retry schedule need a right clock. */
const FAR_MS = 60_000;
const OFF_MS = 5_000;
const CLOCK_CURE = 'Let a time service keep the clock: systemctl enable --now systemd-timesyncd (or chrony).';

export async function* clock(probes: Probes): Check {
  const { store, clock: ours } = probes;
  const newest = store.kind === 'store' ? await store.newestAt() : null;
  const ahead = newest === null ? 0 : newest - ours.now();
  if (ahead > FAR_MS)
    return yield failed(
      `the database has entries ${seconds(ahead)} from the future: the clock was set back`,
      `${CLOCK_CURE} Waiting mail goes on when the time has come.`,
    );
  const time = await timeOf(probes);
  if (typeof time === 'string')
    return yield warning(
      `the clock cannot be held against ${probes.config.doctor.timeServer}: ${time}`,
      'Nothing to do if another service keeps the clock (timedatectl tells); else let NTP (UDP 123) out.',
    );
  const off = Math.abs(time);
  const why = `the clock is ${seconds(off)} ${time > 0 ? 'behind' : 'ahead'}`;
  if (off > FAR_MS) return yield failed(why, CLOCK_CURE);
  if (off > OFF_MS) return yield warning(why, CLOCK_CURE);
  return `the clock is right within ${seconds(Math.max(off, 1))}`;
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

export async function* disk({ config, machine }: Pick<Probes, 'config' | 'machine'>): Check {
  const { url } = config.storage;
  // Nothing can be written at all if the setting is smaller.
  const minFreeBytes = Math.max(config.storage.minFreeBytes, LEAST_FREE);
  const folder = mailFolder(config);
  const free = await machine.freeBytes(folder);
  const cure = `Free some, or give ${folder} a larger disk; \`retention\` says how long mail is kept.`;
  if (free < LEAST_FREE)
    yield failed(
      `${megabytes(free)} free: new mail is refused, and what happens to older mail cannot be written`,
      cure,
    );
  else if (free < minFreeBytes)
    yield failed(
      `${megabytes(free)} free, below storage.minFreeBytes (${writeSize(minFreeBytes)}): new mail is refused`,
      cure,
    );
  else if (free < 2 * minFreeBytes)
    yield warning(`${megabytes(free)} free; at ${writeSize(minFreeBytes)} new mail is refused`, cure);
  const file = databaseFile(url);
  const wal = file === null ? null : await machine.file(`${file}-wal`);
  if (wal !== null && wal.bytes > LARGE_WAL)
    yield warning(
      `the write-ahead log has grown to ${megabytes(wal.bytes)}`,
      'Some program has kept the database open for reading for a long time: close it (lsof names it).',
    );
  return `${megabytes(free)} free for ${folder}`;
}

const megabytes = (bytes: number): string => `${String(Math.floor(bytes / 2 ** 20))} MiB`;

/** The database contains all mail, so only the service may read it. */
export async function* files({ config, machine }: Probes): Check {
  const { dataDir, storage } = config;
  const folder = await machine.file(dataDir);
  if (folder === null)
    return yield warning(`there is no data folder ${dataDir} yet`, 'The first start makes it: posthorn serve');
  const database = databaseFile(storage.url);
  const inside = [...(database === null ? [] : [database]), path.join(dataDir, KEY_FILE)];
  if ((folder.mode & 0o007) !== 0)
    yield failed(
      `${dataDir} is open to every user of this machine (mode ${octal(folder.mode)})`,
      `Run: chmod 750 ${dataDir}`,
    );
  for (const file of inside) {
    const facts = await machine.file(file);
    if (facts !== null && facts.uid !== folder.uid)
      yield failed(
        `${file} belongs to user ${String(facts.uid)}, the data folder to user ${String(folder.uid)}`,
        `Run as root: chown ${String(folder.uid)} ${file}`,
      );
  }
  return `${dataDir} and what is in it belong to the service alone`;
}

const KEY_FILE = 'secret.key';
const LOST_CURE =
  'Put the old file back from the backup: a new one does not open them. Where it is lost for good, say so in the file with a line "lost" and the id of the key, and make new secrets (docs/operating.md#the-data-folder).';

/** Without the right key file no mail and no webhook can be signed: the secrets in the database cannot be opened. */
export async function* secretKey({ config, machine, store }: Probes): Check {
  const file = path.join(config.dataDir, KEY_FILE);
  const facts = await machine.file(file);
  if (facts !== null && (facts.mode & 0o077) !== 0)
    return yield failed(`${file} may be read by others (mode ${octal(facts.mode)})`, `Run: chmod 600 ${file}`);
  const needed = store.kind === 'store' ? await store.sealedSecrets() : [];
  const held = readIds(machine);
  if (typeof held === 'string')
    return yield failed(
      held,
      needed.length === 0 ? 'Correct the file, or put the old one back from the backup.' : LOST_CURE,
    );
  const lost = needed.filter(({ keyId }) => held?.includes(keyId) !== true);
  if (lost.length > 0)
    return yield failed(
      `${file} ${held === null ? 'is missing' : `lacks the key ${lost.map(({ keyId }) => keyId).join(', ')}`}: secrets in the database cannot be opened (${lost.map(({ what }) => what).join(', ')})`,
      LOST_CURE,
    );
  if (held !== null) return `${file} opens what is sealed in the database`;
  // No start makes a new one beside a database, even if nothing is sealed yet.
  if (store.kind !== 'store') return 'made at the first start';
  return yield failed(
    `${file} is missing, and there is a database: the server does not start`,
    'Put the file back from where it is kept. If it is lost for good, docs/operating.md#the-data-folder tells how to go on.',
  );
}

function readIds(machine: Probes['machine']): readonly string[] | null | string {
  try {
    return machine.keyIds();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const octal = (mode: number): string => mode.toString(8).padStart(3, '0');

const SOON_MS = 14 * DAY_MS;

export async function* certificate({ config, clock, machine }: Probes): Check {
  const facts = machine.certificate();
  if (facts.kind === 'none') return 'a self-signed one is made at the first start';
  if (facts.kind === 'bad')
    return yield failed(
      facts.why,
      'Install the certificate as root: posthorn tls install --cert FILE --key FILE (docs/certificates.md), or correct `tls.certFile` and `tls.keyFile`.',
    );
  const now = clock.now();
  const { file, from, until, isOwn, isSelfSigned } = facts;
  const renewal = isOwn
    ? `Remove ${file} and its key and restart: a new one is made.`
    : 'Renew it (certbot renew), and see why its deploy hook (posthorn tls install, docs/certificates.md) has not run.';
  if (until <= now) yield failed(`${file} expired on ${day(until)}`, renewal);
  else if (until - now < SOON_MS) yield warning(`${file} expires on ${day(until)}`, renewal);
  if (from > now)
    yield failed(`${file} is good only from ${day(from)}`, 'Is the clock right? See the line of `clock`.');
  for (const host of certificateNames(config))
    if (!facts.isFor(host))
      yield failed(
        `${file} is not for ${host}`,
        `Get a certificate with the name ${host}, or correct \`smtp.hostname\` or \`http.publicUrl\`.`,
      );
  if (isSelfSigned)
    yield warning(
      `${file} is signed by itself: mail programs that submit here must be told to trust it`,
      "Get one from a public authority such as Let's Encrypt, and run: posthorn tls install (docs/certificates.md). Mail between servers goes all the same.",
    );
  return `${file} is good until ${day(until)}`;
}

const day = (at: number): string => new Date(at).toISOString().slice(0, 10);

/** A backup is made every night; beyond this age at least one is missing. */
const OLD_MS = 36 * HOUR_MS;
/** Beyond this age its queue and its suppressions are of no use. */
const FAR_TOO_OLD_MS = 8 * 24 * HOUR_MS;
const CURE =
  'Run: posthorn backup create - and every night: systemctl enable --now posthorn-backup.timer, or a line of cron.';
const MAKE_ONE = { copy: ['posthorn backup create', 'systemctl enable --now posthorn-backup.timer'] };

export async function* backups({ machine, clock, config }: Pick<Probes, 'machine' | 'clock' | 'config'>): Check {
  const state = await machine.backups(clock.now());
  if (state === null)
    return 'the backup of PostgreSQL is pg_dump, which is not seen from here; keep secret.key beside it';
  const { dir } = state;
  if (state.kind === 'unreadable')
    return yield warning(
      `${dir} cannot be read: ${state.text}`,
      `Let the service read it: see the owner and the rights of ${dir}.`,
    );
  const closed = await machine.whyNoBackups();
  if (closed !== null)
    return yield failed(
      `no backup can be made: ${closed}`,
      'See docs/backup.md, and try it: posthorn backup create (with systemd: systemctl start posthorn-backup.service)',
    );
  const { newest } = state;
  if (newest === null)
    return yield warning(
      `there is no backup in ${dir}`,
      `${CURE} Where another tool copies the data, ignore this line.`,
      MAKE_ONE,
    );
  const age = clock.now() - newest.at;
  const why = `the newest backup in ${dir} is ${ageText(age)} old`;
  if (age > FAR_TOO_OLD_MS) return yield failed(why, CURE, MAKE_ONE);
  if (age > OLD_MS) return yield warning(why, CURE, MAKE_ONE);
  if (!newest.hasKeys)
    return yield warning(
      `${why}, and has no keys in it: without secret.key nothing that is sealed can be opened`,
      // A command does not read the credentials of the service.
      config.backup.passphrase === null
        ? 'Give a passphrase: the setting backup.passphrase; or keep secret.key elsewhere, it never changes.'
        : 'It was made without the passphrase that the service has. One with the keys: sudo systemctl start posthorn-backup',
    );
  return why;
}

export const ageText = (ms: number): string =>
  ms < 2 * HOUR_MS
    ? 'less than two hours'
    : ms < 72 * HOUR_MS
      ? `${String(Math.floor(ms / HOUR_MS))} hours`
      : `${String(Math.floor(ms / HOUR_MS / 24))} days`;

export async function* settings({ server, config }: Probes): Check {
  const isThere = server.kind !== 'missing';
  if (isThere) yield settingsFault(server.settings()) ?? ok('those that are written are in force');
  for (const why of linksFaults(config))
    yield warning(
      why,
      'Set it to the address under which recipients reach this server, such as https://mail.example.com.',
    );
  for (const { why } of await absentSources(config))
    yield failed(why, 'Correct `delivery.sources`, or add the address to this machine (ip address add).');
  if (!isThere) return 'they have no mistakes; no server is running that could have others in force';
  for (const ip of server.unknownProxies())
    yield warning(
      `${ip} sends X-Forwarded-For and is not in \`http.trustedProxies\`: all clients behind it count as one, for budgets, allowed addresses and the audit log`,
      `If it is your proxy, add ${ip} to \`http.trustedProxies\`, and restart.`,
    );
  return undefined;
}

/** Returns why the written settings are not those in force, or null. A restart applies all of them. */
export function settingsFault(state: SettingsState): Verdict | null {
  if (state.kind === 'in_force') return null;
  if (state.kind === 'bad')
    return failed(
      `they were edited and have mistakes, so that the next start would fail: ${state.mistakes.join('; ')}`,
      'Correct them (posthorn config check), then: systemctl reload posthorn',
      { copy: ['posthorn config check'] },
    );
  const { applied, needRestart } = state.changes;
  const command = `systemctl ${needRestart.length > 0 ? 'restart' : 'reload'} posthorn`;
  return warning(
    `edited and not in force yet: ${[...applied, ...needRestart].join(', ')}`,
    needRestart.length > 0
      ? `Run: ${command} - without systemd, stop the server and start it again.`
      : `Run: ${command} - without systemd, send it SIGHUP.`,
    { copy: [command] },
  );
}
