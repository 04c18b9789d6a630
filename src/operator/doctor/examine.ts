/** The checks of the doctor. Each runs within a time limit, and an error of a check becomes a finding. */
import type { Clock } from '../../base/clock.ts';
import { backups } from './backups.ts';
import { blocklists } from './blocklists.ts';
import { certificate } from './certificate.ts';
import { database } from './database.ts';
import { dmarcReports, domains } from './domains.ts';
import { failed, warning, type Finding, type Verdict } from './finding.ts';
import { books, oneClick, webhooks } from './ledger.ts';
import { clock, disk, files, secretKey, versions } from './machine-checks.ts';
import { listeners } from './listeners.ts';
import { nodes } from './nodes.ts';
import { bounce, mx } from './mx.ts';
import { name } from './name.ts';
import { outbound } from './outbound.ts';
import type { Probes } from './probes.ts';
import { settings } from './settings.ts';
import { dnssec, resolver } from './resolver.ts';
import { storageTrouble } from './storage-trouble.ts';

type Check = (probes: Probes) => Promise<Verdict | readonly Verdict[]>;

/** In the order of the report: the machine first, so that a cause comes before its consequences. */
const checks = {
  versions,
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
  dmarc_reports: dmarcReports,
  one_click: oneClick,
  webhooks,
  books,
  backups,
} satisfies Record<string, Check>;

export type CheckName = keyof typeof checks;
export const checkNames = Object.keys(checks) as CheckName[];

const TIMEOUT_MS = 20_000;
/** Longer limits of checks whose work grows with the installation. */
const TIMEOUTS: Partial<Record<CheckName, number>> = {
  mx: 60_000,
  books: 300_000,
  domains: 120_000,
  dmarc_reports: 120_000,
};

/** Runs these checks at the same time and returns the findings in the order of the names. Never rejects. */
export async function examine(probes: Probes, names: readonly CheckName[]): Promise<Finding[]> {
  const found = await Promise.all(names.map((one) => run(probes, one)));
  return found.flat();
}

async function run(probes: Probes, check: CheckName): Promise<Finding[]> {
  const timeout = TIMEOUTS[check] ?? TIMEOUT_MS;
  const ran = (checks[check] as Check)(probes).catch((error: unknown) => broken(probes, error));
  const verdicts = await withTimeout(probes.clock, timeout, ran);
  return (Array.isArray(verdicts) ? verdicts : [verdicts as Verdict]).map((verdict: Verdict) => ({
    check,
    ...verdict,
    about: verdict.about ?? null,
    copy: verdict.copy ?? [],
  }));
}

function broken({ config }: Pick<Probes, 'config'>, error: unknown): Verdict {
  const trouble = storageTrouble(error, config.storage);
  if (trouble !== null) return failed(trouble.why, trouble.cure);
  return failed(
    `the check itself failed: ${error instanceof Error ? error.message : String(error)}`,
    'Report it, with the log.',
  );
}

/** Resolves with a warning after `ms`. The work continues, and its result is dropped. */
function withTimeout(
  clock: Clock,
  ms: number,
  work: Promise<Verdict | readonly Verdict[]>,
): Promise<Verdict | readonly Verdict[]> {
  return new Promise((resolve) => {
    const late = warning(
      `no result within ${String(ms / 1000)} s`,
      'Ask again when there is less to do; the other lines may say what is slow.',
    );
    const timer = clock.after(ms, () => {
      resolve(late);
    });
    void work.then((verdicts) => {
      timer.cancel();
      resolve(verdicts);
    });
  });
}
