/** Runs the doctor's checks in the running server, or in this process if none answers. */
import type { Config } from '../../config/schema.ts';
import { callServer, jsonIn } from '../door/client.ts';
import { socketPath } from '../door/socket.ts';
import { examine, type CheckName } from './examine.ts';
import type { Finding } from './finding.ts';
import { openProbes } from './probe.ts';

export { checkNames, type CheckName } from './examine.ts';
export type { Finding } from './finding.ts';

export interface ReachOptions {
  wantsDnssec: boolean;
  /** Only these checks. */
  checks: readonly CheckName[];
  /** A check has ended. */
  ended: (check: CheckName) => void;
}

/** Runs the checks at the same time and returns the findings in the order of the checks. */
export async function examineFrom(config: Config, { checks, wantsDnssec, ended }: ReachOptions): Promise<Finding[]> {
  const file = socketPath(config.dataDir);
  const [first, ...rest] = checks;
  if (first === undefined) return [];
  const ask = async (check: CheckName): Promise<readonly Finding[] | null> => {
    const answer = await callServer(file, 'doctor', { body: { checks: [check], dnssec: wantsDnssec } });
    if (answer === null) return null;
    // The answer is the result of the operation with this name.
    const { data } = (await jsonIn(answer)) as { data: Finding[] };
    ended(check);
    return data;
  };
  const answered = await ask(first);
  const answers = [answered, ...(answered === null ? [] : await Promise.all(rest.map(ask)))];
  // No server runs, or it has stopped meanwhile.
  const left = checks.filter((_, at) => (answers[at] ?? null) === null);
  const here = left.length === 0 ? [] : await examineHere(config, { checks: left, wantsDnssec, ended });
  return checks.flatMap((check, at) => answers[at] ?? here.filter((finding) => finding.check === check));
}

async function examineHere(config: Config, { checks, wantsDnssec, ended }: ReachOptions): Promise<Finding[]> {
  const probes = await openProbes(config, { wantsDnssec });
  try {
    const found = await Promise.all(
      checks.map(async (check) => {
        const findings = await examine(probes, [check]);
        ended(check);
        return findings;
      }),
    );
    return found.flat();
  } finally {
    await probes.close();
  }
}
