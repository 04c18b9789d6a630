/** Reads the pause that a refusal asks for: `try again in 300 seconds`, `please come back in 00:05:00`. */
import { wordingOf } from '../../base/phrase.ts';
import { HOUR_MS, MINUTE_MS } from '../../base/time.ts';

/** Words that ask for a pause, then a number. Only few words may come between them, so that other numbers do not match. */
const ASKED =
  / (?:again|retry|retrying|back|wait|delay|delayed|later|resend|reconnect|gr[ae]ylist(?:ed|ing)?|erneut|reessayer|intente|riprova)(?: (?:in|after|for|at|least|about|another|the|next|please|time|approximately|message|it|this|action|nach|dans|en|tra)){0,4} (?:(\d{1,2}) (\d{2}) (\d{2})|(\d{1,5}) ?([a-z]{1,10})) /;

const UNITS: readonly (readonly [words: RegExp, ms: number])[] = [
  [/^(?:s|secs?|seconds?|sekunden|secondes|segundos)$/, 1000],
  [/^(?:m|mins?|minutes?|minuten|minutos|minuti)$/, MINUTE_MS],
  [/^(?:h|hrs?|hours?|stunden|heures|horas)$/, HOUR_MS],
];

/** Returns the pause that the reply asks for in ms, or null. It may be absurd: retry.ts limits it. */
export function askedPause(text: string): number | null {
  const [, hours, minutes, seconds, count, unit] = ASKED.exec(wordingOf(text).words) ?? [];
  if (hours !== undefined) return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
  const ms = unit === undefined ? undefined : UNITS.find(([words]) => words.test(unit))?.[1];
  return ms === undefined ? null : Number(count) * ms;
}
