/** Merge tags of Mailchimp (`*|NAME|*`) are not a language here: as text they would reach recipients, so each is a fault that names the cure. */
import { syntax } from './fault.ts';

const MERGE_TAG = /\*\|([A-Za-z][A-Za-z0-9_]*)(?::([^|\r\n]{0,200}))?\|\*/;

/** Returns, for a word of theirs and the text behind it, the tag to write here. */
const words: Readonly<Record<string, (rest: string) => string>> = {
  IF: (rest) => `{% if ${condition(rest)} %}`,
  IFNOT: (rest) => `{% unless ${condition(rest)} %}`,
  ELSEIF: (rest) => `{% elsif ${condition(rest)} %}`,
  ELSE: () => '{% else %}',
  END: () => '{% endif %}` or `{% endunless %}',
  UPPER: (rest) => `{{{ ${rest} | upcase }}}`,
  LOWER: (rest) => `{{{ ${rest} | downcase }}}`,
  HTML: (rest) => `{{{ ${rest} }}}`,
  DATE: () => '{{ now | date: "%Y-%m-%d" }}',
  CURRENT_YEAR: () => '{{ now | date: "%Y" }}',
  UNSUB: () => '{{unsubscribe_url}}',
};

/** Their conditions compare with `=` and without quotes. */
const condition = (rest: string): string =>
  rest.replace(
    /^\s*(\w+)\s*(!=|[<>]=?|=)\s*(.*)$/,
    (_, name: string, operator: string, value: string) =>
      `${name} ${operator === '=' ? '==' : operator} ${/^-?\d+(?:\.\d+)?$/.test(value) ? value : JSON.stringify(value)}`,
  );

/** Throws the fault of the first merge tag. */
export function refuseMergeTags(source: string): void {
  if (!source.includes('*|')) return;
  const found = MERGE_TAG.exec(source);
  if (found === null) return;
  const [tag, word = '', rest = ''] = found;
  const ours = words[word.toUpperCase()]?.(rest) ?? (rest === '' ? `{{{ ${word} }}}` : null);
  const cure = ours === null ? 'it has no counterpart here' : `write \`${ours}\``;
  throw syntax(`\`${tag}\` is a merge tag of another service: ${cure}`, found.index);
}
