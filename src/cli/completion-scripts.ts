/**
 * Completion scripts for three shells. Each reads the words of the line to find the command that is being written: a word that
 * names a command below the last one is the next command, unless it is the value of an option.
 * Pure.
 */

/** A command, and the words that can follow it. */
export interface Place {
  /** `['domains', 'add']`; empty for the program itself. */
  path: readonly string[];
  commands: readonly { word: string; says: string }[];
  options: readonly { word: string; says: string; takes: 'nothing' | 'value' | 'file' }[];
  /** Words that an argument can be. */
  choices: readonly string[];
  takesFiles: boolean;
}

const nameOf = ({ path }: Place): string => path.join(' ');
/** Returns a pattern of `case`. Without words it is one that nothing matches, since an empty pattern is an error. */
const quoted = (words: readonly string[]): string =>
  words.length === 0 ? `' '` : words.map((word) => `'${word}'`).join('|');
const deeper = (places: readonly Place[]): string[] => places.map(nameOf).filter((name) => name !== '');

/** Returns the options of all commands that take a value of this kind. */
const taking = (places: readonly Place[], kind: 'value' | 'file'): string[] => [
  ...new Set(places.flatMap(({ options }) => options.flatMap(({ word, takes }) => (takes === kind ? [word] : [])))),
];

const wordsOf = ({ commands, options, choices }: Place): string[] => [
  ...commands.map(({ word }) => word),
  ...choices,
  ...options.map(({ word }) => word),
];

/** Returns the words that can follow a command, with their descriptions. */
const offersOf = ({ commands, options, choices }: Place): { word: string; says: string }[] => [
  ...commands,
  ...choices.map((word) => ({ word, says: word })),
  ...options,
];

export function bash(places: readonly Place[]): string {
  const [values, files] = [taking(places, 'value'), taking(places, 'file')];
  return `# bash completion for posthorn
_posthorn() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at='' words='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i-1]}" in ${quoted([...values, ...files])}) continue ;; esac
    case "\${at:+$at }\${COMP_WORDS[i]}" in
      ${quoted(deeper(places))}) at="\${at:+$at }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$prev" in
    ${quoted(files)}) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    ${quoted(values)}) return ;;
  esac
  case "$at" in
${places.map((place) => `    '${nameOf(place)}') words='${wordsOf(place).join(' ')}' ;;`).join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  case "$at" in
    ${quoted(places.filter(({ takesFiles }) => takesFiles).map(nameOf))}) [[ $cur == -* ]] || COMPREPLY+=($(compgen -f -- "$cur")) ;;
  esac
}
complete -o filenames -F _posthorn posthorn`;
}

export function zsh(places: readonly Place[]): string {
  const [values, files] = [taking(places, 'value'), taking(places, 'file')];
  const offers = (place: Place): string =>
    offersOf(place)
      .map(({ word, says }) => `'${word}:${says}'`)
      .join(' ');
  return `#compdef posthorn
# zsh completion for posthorn
_posthorn() {
  local at='' i
  local -a offers
  for ((i = 2; i < CURRENT; i++)); do
    case "\${words[i-1]}" in ${quoted([...values, ...files])}) continue ;; esac
    case "\${at:+$at }\${words[i]}" in
      ${quoted(deeper(places))}) at="\${at:+$at }\${words[i]}" ;;
    esac
  done
  case "\${words[CURRENT-1]}" in
    ${quoted(files)}) _files; return ;;
    ${quoted(values)}) return ;;
  esac
  case "$at" in
${places.map((place) => `    '${nameOf(place)}') offers=(${offers(place)}) ;;`).join('\n')}
  esac
  _describe -t commands 'posthorn' offers
  case "$at" in
    ${quoted(places.filter(({ takesFiles }) => takesFiles).map(nameOf))}) _files ;;
  esac
}
if [ "\${funcstack[1]}" = _posthorn ]; then _posthorn "$@"; else compdef _posthorn posthorn; fi`;
}

export function fish(places: readonly Place[]): string {
  const valued = [...taking(places, 'value'), ...taking(places, 'file')];
  const list = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(' ');
  const lines = places.flatMap((place) => {
    const condition = `-n '__posthorn_at "${nameOf(place)}"'`;
    const start = `complete -c posthorn ${condition}`;
    return [
      ...place.commands.map(({ word, says }) => `${start} -a '${word}' -d '${says}'`),
      ...place.choices.map((word) => `${start} -a '${word}'`),
      ...place.options.map(({ word, says, takes }) => {
        const needs = takes === 'nothing' ? '' : takes === 'file' ? ' -r -F' : ' -x';
        return `${start} -l ${word.replace(/^--/, '')}${needs} -d '${says}'`;
      }),
      ...(place.takesFiles ? [`${start} -F`] : []),
    ];
  });
  return `# fish completion for posthorn
function __posthorn_at
  set -l at ''
  set -l before ''
  for word in (commandline -opc)[2..-1]
    if not contains -- "$before" ${list(valued)}
      set -l next (string trim -- "$at $word")
      if contains -- "$next" ${list(deeper(places))}
        set at "$next"
      end
    end
    set before "$word"
  end
  test "$at" = "$argv[1]"
end
complete -c posthorn -f
${lines.join('\n')}`;
}
