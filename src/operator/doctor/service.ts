/** Checks whether the running server recognises a bounce. */
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

type Needs = Pick<Probes, 'server' | 'config'>;

export async function bounce({ server, config }: Needs): Promise<Verdict> {
  if (server.kind === 'missing') return warning(`not tried: ${server.why}`, server.cure);
  if (server.listeners().every(({ name, open }) => name !== 'mx' || open === null))
    return failed('there is no listener that could hear a bounce', 'See the line of `listeners`.');
  const test = await server.selfTest();
  if (test.ok) return ok(`a bounce sent to ourselves was recognised after ${String(Math.round(test.ms))} ms`);
  const why = test.why ?? 'no reason is given';
  return failed(`a bounce sent to ourselves was not recognised: ${why}`, cureOf(why, config.smtp.hostname));
}

/** Our own listener gave the reply in `why`, and its codes have one meaning each. */
function cureOf(why: string, hostname: string): string {
  if (!hostname.includes('.'))
    return `No mail can have an address at ${hostname}, which has no dot. Set \`smtp.hostname\`; see the line of \`name\`.`;
  if (/\b452\b/.test(why)) return 'There is no room for mail that comes back: see the line of `disk`.';
  if (/\b(?:421|4\.7\.\d)\b/.test(why))
    return 'Too many others use port 25 at the moment: ask again later. The metric posthorn_budget_used_up_total says which budget.';
  if (why.includes('not delivered within'))
    return 'The delivery engine is busy or stands: see posthorn queue lanes, and the line of `disk`.';
  return 'The log says more (event `reports_failed`, `report_unreadable`, `received_failed` or `smtp_failed`); a restart also restarts the reader of reports.';
}
