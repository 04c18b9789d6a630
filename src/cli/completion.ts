/** `posthorn completion bash|zsh|fish`: prints a script for the shell, which asks this program for the words that can follow. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Context } from './cli.ts';

/** Each hands over the words before the cursor, the last of which may be empty. If no word fits, the shell offers files. */
const scripts = {
  bash: `# bash completion for posthorn
_posthorn() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(posthorn complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" | cut -f 1)" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _posthorn posthorn`,
  zsh: `#compdef posthorn
# zsh completion for posthorn
_posthorn() {
  local -a offers=("\${(@f)$(posthorn complete -- "\${(@)words[2,CURRENT]}" | tr '\\t' ':')}")
  [[ -n $offers ]] && _describe posthorn offers || _files
}
if [ "\${funcstack[1]}" = _posthorn ]; then _posthorn "$@"; else compdef _posthorn posthorn; fi`,
  fish: `# fish completion for posthorn
complete -c posthorn -a '(posthorn complete -- (commandline -opc)[2..-1] (commandline -ct))'`,
};

export function completion(context: Context, { shell }: { shell: keyof typeof scripts }): void {
  context.out(scripts[shell]);
}

/** Returns the words that can follow these, the last of which is being written, each with a tab and what it does. */
export function offersAfter(program: CommandUnknownOpts, words: readonly string[]): string[] {
  let at = program;
  for (const [place, word] of words.slice(0, -1).entries()) {
    if (takesValue(program, at, words[place - 1])) continue;
    at = at.commands.find((one) => one.name() === word) ?? at;
  }
  if (takesValue(program, at, words.at(-2))) return [];
  const help = at.createHelp();
  const offers = [
    ...at.commands.filter((one) => one.name() !== 'complete').map((one) => [one.name(), one.description()]),
    ...at.registeredArguments.flatMap(({ argChoices = [] }) => argChoices.map((one) => [one, ''])),
    ...help.visibleOptions(at).map((one) => [one.long ?? one.flags, one.description]),
  ];
  return offers
    .filter(([word = '']) => word.startsWith(words.at(-1) ?? ''))
    .map(([word = '', says = '']) => `${word}\t${says.split('\n', 1)[0]?.replaceAll(/[\t:]/g, ' ') ?? ''}`);
}

/** Returns whether the word is an option of the command, or of the program, that has a value behind it. */
const takesValue = (program: CommandUnknownOpts, at: CommandUnknownOpts, word: string | undefined): boolean =>
  [...at.options, ...program.options].some(({ long, required }) => required && long === word);
