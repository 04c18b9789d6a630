/** Checks whether the running server recognises a bounce. */
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

type Needs = Pick<Probes, 'server'>;

export async function bounce({ server }: Needs): Promise<Verdict> {
  if (server.kind === 'missing') return warning(`not tried: ${server.why}`, server.cure);
  if (server.listeners().every(({ name, open }) => name !== 'mx' || open === null))
    return failed('there is no listener that could hear a bounce', 'See the line of `listeners`.');
  const test = await server.selfTest();
  if (test.ok) return ok(`a bounce sent to ourselves was recognised after ${String(Math.round(test.ms))} ms`);
  return failed(
    `a bounce sent to ourselves was not recognised: ${test.why ?? 'no reason is given'}`,
    'The log says more (event `report_failed` or `smtp_failed`); a restart also restarts the reader of reports.',
  );
}
