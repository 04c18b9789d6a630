/** `posthorn doctor`: checks everything that mail depends on, and suggests cures. */
import { Problem } from '../base/problem.ts';
import { checkNames, examineFrom, type Finding } from '../operator/doctor/doctor.ts';
import type { Context } from './cli.ts';
import { printable } from '../presentations/presentation.ts';

const MARKS = { ok: 'ok     ', warning: 'warning', failed: 'FAILED ' } as const;

interface DoctorOptions {
  only?: string[];
  dnssec?: true;
  json?: true;
}

export async function doctor(context: Context, { only, dnssec, json }: DoctorOptions): Promise<void> {
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
  if (findings.some(({ status }) => status === 'failed')) context.end(1);
}

function lines({ check, status, why, cure, copy }: Finding): string[] {
  const line = `${MARKS[status]}  ${check.padEnd(13)}  ${printable(why)}`;
  if (cure === null) return [line];
  const further = copy.filter((one) => !cure.includes(one));
  return [line, ...[`-> ${cure}`, ...further.map((one) => `   ${one}`)].map((one) => ' '.repeat(24) + printable(one))];
}
