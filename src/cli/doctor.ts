/** `posthorn doctor`: checks everything that mail depends on, and suggests cures. */
import type { Command } from '@commander-js/extra-typings';
import { Problem } from '../base/problem.ts';
import type { Finding } from '../operator/doctor/finding.ts';
import type { Context } from './cli.ts';
import { listOption } from './options.ts';
import { printable } from '../presentations/table.ts';

/** Exit code if a check failed. */
const CHECK_FAILED = 1;

const MARKS = { ok: 'ok     ', warning: 'warning', failed: 'FAILED ' } as const;

export function addDoctor(command: Command, context: Context): void {
  command
    .option('--only <checks>', 'only these checks: name,outbound,...', listOption<string>)
    .option('--dnssec', 'try the DNS servers for DNSSEC, although no setting needs it')
    .option('--json', 'as one JSON object')
    .action(async ({ only, dnssec, json }) => {
      // The store and its packages take longer to load than most commands run.
      const { checkNames } = await import('../operator/doctor/examine.ts');
      const { examineFrom } = await import('../operator/doctor/doctor.ts');
      const strangers = only?.filter((name) => !checkNames.some((known) => known === name)) ?? [];
      if (strangers.length > 0)
        throw new Problem(
          'invalid_parameter',
          `--only: there is no check ${strangers.join(', ')}; there are ${checkNames.join(', ')}`,
        );
      const checks = checkNames.filter((name) => only?.includes(name) ?? true);
      context.status('examining ...');
      const findings = await examineFrom(context.load().config, { checks, dnssec: dnssec === true });
      context.status('');
      context.print(json, { data: findings }, () => findings.flatMap(lines));
      if (findings.some(({ status }) => status === 'failed')) context.end(CHECK_FAILED);
    });
}

function lines({ check, status, why, cure }: Finding): string[] {
  const line = `${MARKS[status]}  ${check.padEnd(13)}  ${printable(why)}`;
  return cure === null ? [line] : [line, `${' '.repeat(24)}-> ${printable(cure)}`];
}
