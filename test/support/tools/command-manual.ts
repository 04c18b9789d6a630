/** docs/commands.md: the names of all commands; what each does is in its help. */
import { run } from '../../../src/cli/cli.ts';

const INTRODUCTION = `# Commands

<!-- Made from the help of the commands by \`npm run docs\`. -->

Each command, such as \`posthorn queue list\`, has \`--help\`, with what it does, its options and examples. \`--config\` names the settings file. \`--account\` takes a name or an id; without it most commands are about the account \`default\`. [Operating](operating.md) says when to use which, and what the exit codes mean.

All but \`serve\` and \`completion\` have \`--json\`: the records of the [API](api.md) in the place of a table, lists as \`{"data": [...]}\`. Commands that go on, such as \`events tail\`, print one object a line. A list that goes on behind the rows shown says so on standard error.
`;

export async function commandManual(): Promise<string> {
  const names = namesIn(await helpOf([]));
  const entries = await Promise.all(names.map(entryOf));
  return `${INTRODUCTION}\n${entries.join('\n')}\n`;
}

/** Returns the entry of a command: its purpose, and the names of those below it. */
async function entryOf(name: string): Promise<string> {
  const below = await pathsBelow([name]);
  const list = below.length === 0 ? '' : ` (${below.map((words) => `\`${words.slice(1).join(' ')}\``).join(', ')})`;
  return `- \`${name}\`${list}: ${purposeIn(await helpOf([name]))}`;
}

async function pathsBelow(command: readonly string[]): Promise<string[][]> {
  const paths: string[][] = [];
  for (const name of namesIn(await helpOf(command))) {
    const deeper = await pathsBelow([...command, name]);
    paths.push(...(deeper.length === 0 ? [[...command, name]] : deeper));
  }
  return paths;
}

function namesIn(help: string): string[] {
  const [, list = ''] = help.split('Commands:\n');
  return [...list.matchAll(/^ {2}([\w-]+)/gm)].flatMap(([, name = '']) => (name === 'help' ? [] : [name]));
}

/** The help begins with the usage, then an empty line, then what the command does, in as many lines as that takes. */
const purposeIn = (help: string): string => (help.split('\n\n')[1] ?? '').replaceAll('\n', ' ');

async function helpOf(command: readonly string[]): Promise<string> {
  const lines: string[] = [];
  await run([...command, '--help'], {}, { out: (text) => void lines.push(text), note: () => undefined });
  return lines.join('\n');
}
