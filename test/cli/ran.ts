/** A command as the shell would run it, inside this process. */
import { run, type Program } from '../../src/cli/cli.ts';

export interface Ran {
  code: number;
  out: string;
  notes: string;
}

export async function ran(
  args: readonly string[],
  env: Record<string, string> = {},
  program: Program = {},
  { isOutTerminal = false, isTerminal = false } = {},
): Promise<Ran> {
  const [out, notes]: [string[], string[]] = [[], []];
  const sinks = {
    out: (line: string) => void out.push(line),
    note: (line: string) => void notes.push(line),
    isOutTerminal,
    isTerminal,
  };
  const code = await run(args, { POSTHORN_SMTP__HOSTNAME: 'mail.example.com', ...env }, sinks, program);
  return { code, out: out.join('\n'), notes: notes.join('\n') };
}
