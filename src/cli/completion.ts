/** `posthorn completion bash|zsh|fish`: prints a script for the shell, made from the table of commands. */
import { Argument, type CommandUnknownOpts, type Option } from '@commander-js/extra-typings';
import type { Context } from './cli.ts';
import { bash, fish, zsh, type Place } from './completion-scripts.ts';

const shells = ['bash', 'zsh', 'fish'] as const;
const scripts = { bash, zsh, fish };

export function addCompletion(program: CommandUnknownOpts, context: Context): void {
  program
    .command('completion')
    .description('print a script that completes commands and options in your shell')
    .addArgument(new Argument('<shell>').choices(shells))
    .action((shell) => {
      context.out(scripts[shell](placesOf(program)));
    });
}

/** Returns every command with the words that can follow it; the program itself has the empty path. */
export function placesOf(command: CommandUnknownOpts, path: readonly string[] = []): Place[] {
  const place: Place = {
    path,
    commands: command.commands.map((one) => ({ word: one.name(), says: firstLine(one.description()) })),
    options: [...command.options.map(optionOf), { word: '--help', says: 'show help', takes: 'nothing' }],
    choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
    takesFiles: command.registeredArguments.some((argument) => isFile(argument.name())),
  };
  return [place, ...command.commands.flatMap((one) => placesOf(one, [...path, one.name()]))];
}

function optionOf({ long, flags, description, required }: Option): Place['options'][number] {
  const takes = !required ? 'nothing' : isFile(/<([^>]+)>/.exec(flags)?.[1] ?? '') ? 'file' : 'value';
  return { word: long ?? flags, says: firstLine(description), takes };
}

const isFile = (name: string): boolean => /^files?$/.test(name);

/** Removes quotes and colons: scripts put the text in single quotes, and zsh splits it at colons. */
const firstLine = (text: string): string => text.split('\n', 1)[0]?.replaceAll(/['`\\[\]:]/g, '') ?? '';
