/** `posthorn doctor`: checks everything that mail depends on, and suggests cures. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { Problem } from '../base/problem.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { listOption } from './options.ts';
import { showProgress } from './progress.ts';
import { printable } from '../presentations/table.ts';

/** Exit code if a check failed. */
const CHECK_FAILED = 1;

const MARKS = { ok: 'ok     ', warning: 'warning', failed: 'FAILED ' } as const;

export function addDoctor(program: CommandUnknownOpts, context: Context): void {
  program
    .command('doctor')
    .description(helpOf('doctor'))
    .option('--only <checks>', 'only these checks: name,outbound,...', listOption<string>)
    .option('--dnssec', 'try the DNS servers for DNSSEC, although no setting needs it')
    .option('--json', 'as one JSON object')
    .action(async ({ only, dnssec, json }) => {
      // The store and its packages take longer to load than most commands run.
      const { checkNames, examineFrom } = await import('../operator/doctor/reach.ts');
      const strangers = only?.filter((name) => !checkNames.some((known) => known === name)) ?? [];
      if (strangers.length > 0)
        throw new Problem(
          'invalid_parameter',
          `--only: there is no check ${strangers.join(', ')}; there are ${checkNames.join(', ')}`,
        );
      const checks = checkNames.filter((name) => only?.includes(name) ?? true);
      const progress = showProgress(context, 'examining');
      let done = 0;
      progress.at(done, checks.length);
      const findings = await examineFrom(context.load().config, {
        checks,
        wantsDnssec: dnssec === true,
        ended: () => {
          progress.at(++done, checks.length);
        },
      });
      progress.end();
      context.print(json, { data: findings }, () => findings.flatMap(lines));
      if (findings.some(({ status }) => status === 'failed')) context.end(CHECK_FAILED);
    });
}

function lines({
  check,
  status,
  why,
  cure,
}: {
  check: string;
  status: keyof typeof MARKS;
  why: string;
  cure: string | null;
}): string[] {
  const line = `${MARKS[status]}  ${check.padEnd(13)}  ${printable(why)}`;
  return cure === null ? [line] : [line, `${' '.repeat(24)}-> ${printable(cure)}`];
}
