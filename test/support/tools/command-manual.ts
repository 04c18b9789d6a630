/** docs/commands.md: every command with what its help says. */
import { run } from '../../../src/cli/cli.ts';

const INTRODUCTION = `# Commands

<!-- Made from the help of the commands by \`npm run docs\`. -->

Each of these is called as \`posthorn COMMAND\` and has \`--help\`, with its options and examples. \`--config\` names the settings file. \`--account\` takes a name or an id; without it most commands are about the account \`default\`. [Operating](operating.md) says when to use which, and what the exit codes mean.

All but \`serve\` and \`completion\` have \`--json\`: the records of the [API](api.md) in the place of a table, lists as \`{"data": [...]}\`. Commands that go on, such as \`events tail\`, print one object a line. A list that goes on behind the rows shown says so on standard error.
`;

export async function commandManual(): Promise<string> {
  const rows = await rowsBelow([]);
  return `${INTRODUCTION}\n${rows.join('\n')}\n`;
}

async function rowsBelow(command: readonly string[]): Promise<string[]> {
  const help = await helpOf(command);
  const [, list = ''] = help.split('Commands:\n');
  const names = [...list.matchAll(/^ {2}([\w-]+)/gm)].flatMap(([, name = '']) => (name === 'help' ? [] : [name]));
  if (names.length === 0) return [rowOf(command, help)];
  const rows: string[] = [];
  for (const name of names) rows.push(...(await rowsBelow([...command, name])));
  return rows;
}

/** The help begins with the usage, then an empty line, then what the command does, in as many lines as that takes. */
function rowOf(command: readonly string[], help: string): string {
  const [usage = '', does = ''] = help.split('\n\n');
  const given = usage.match(/<[\w.]+>|\[(?!options|command)[\w.]+\]/g) ?? [];
  return `- \`${[...command, ...given].join(' ')}\`: ${does.replaceAll('\n', ' ')}`;
}

async function helpOf(command: readonly string[]): Promise<string> {
  const lines: string[] = [];
  await run([...command, '--help'], {}, { out: (text) => void lines.push(text), note: () => undefined });
  return lines.join('\n');
}
