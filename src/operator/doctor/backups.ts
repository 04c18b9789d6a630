/** Checks that there is a recent backup. */
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';
import { HOUR_MS } from '../../base/time.ts';

/** A backup is made every night; beyond this age at least one is missing. */
const OLD_MS = 36 * HOUR_MS;
/** Beyond this age its queue and its suppressions are of no use. */
const FAR_TOO_OLD_MS = 8 * 24 * HOUR_MS;
const CURE =
  'Run: posthorn backup create - and every night: systemctl enable --now posthorn-backup.timer, or a line of cron.';
const MAKE_ONE = { copy: ['posthorn backup create', 'systemctl enable --now posthorn-backup.timer'] };

type Needs = Pick<Probes, 'machine' | 'clock' | 'config'>;

export async function backups({ machine, clock, config }: Needs): Promise<Verdict> {
  const state = await machine.backups(clock.now());
  if (state === null)
    return ok('the backup of PostgreSQL is pg_dump, which is not seen from here; keep secret.key beside it');
  const { dir } = state;
  if (state.kind === 'unreadable')
    return warning(
      `${dir} cannot be read: ${state.text}`,
      `Let the service read it: see the owner and the rights of ${dir}.`,
    );
  const closed = await machine.whyNoBackups();
  if (closed !== null)
    return failed(
      `no backup can be made: ${closed}`,
      'See docs/backup.md, and try it: posthorn backup create (with systemd: systemctl start posthorn-backup.service)',
    );
  const { newest } = state;
  if (newest === null)
    return warning(
      `there is no backup in ${dir}`,
      `${CURE} Where another tool copies the data, ignore this line.`,
      MAKE_ONE,
    );
  const age = clock.now() - newest.at;
  const why = `the newest backup in ${dir} is ${ageText(age)} old`;
  if (age > FAR_TOO_OLD_MS) return failed(why, CURE, MAKE_ONE);
  if (age > OLD_MS) return warning(why, CURE, MAKE_ONE);
  if (!newest.hasKeys)
    return warning(
      `${why}, and has no keys in it: without secret.key nothing that is sealed can be opened`,
      // A command does not read the credentials of the service.
      config.backup.passphrase === null
        ? 'Give a passphrase: the setting backup.passphrase; or keep secret.key elsewhere, it never changes.'
        : 'It was made without the passphrase that the service has. One with the keys: sudo systemctl start posthorn-backup',
    );
  return ok(why);
}

const ageText = (ms: number): string =>
  ms < 2 * HOUR_MS
    ? 'less than two hours'
    : ms < 72 * HOUR_MS
      ? `${String(Math.floor(ms / HOUR_MS))} hours`
      : `${String(Math.floor(ms / HOUR_MS / 24))} days`;
