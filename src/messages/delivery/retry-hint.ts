/** Reads the pause that a refusal asks for: `try again in 300 seconds`, `please come back in 00:05:00`. */
import { wordingOf } from '../../base/phrase.ts';

/** Words that ask for a pause, then a number. Only few words may come between them, so that other numbers do not match. */
const ASKED =
  / (?:again|retry|retrying|back|wait|delay|delayed|later|resend|reconnect|gr[ae]ylist(?:ed|ing)?|erneut|reessayer|intente|riprova)(?: (?:in|after|for|at|least|about|another|the|next|please|time|approximately|message|it|this|action|nach|dans|en|tra)){0,4} (?:(\d{1,2}) (\d{2}) (\d{2})|(\d{1,5}) ?([a-z]{1,10})) /;

const UNITS: Readonly<Record<string, number>> = {
  s: 1000,
  sec: 1000,
  secs: 1000,
  second: 1000,
  seconds: 1000,
  sekunden: 1000,
  secondes: 1000,
  segundos: 1000,
  m: 60_000,
  min: 60_000,
  mins: 60_000,
  minute: 60_000,
  minutes: 60_000,
  minuten: 60_000,
  minutos: 60_000,
  minuti: 60_000,
  h: 3_600_000,
  hr: 3_600_000,
  hrs: 3_600_000,
  hour: 3_600_000,
  hours: 3_600_000,
  stunden: 3_600_000,
  heures: 3_600_000,
  horas: 3_600_000,
};

/** Returns the pause that the reply asks for in ms, or null. It may be absurd: retry.ts limits it. */
export function askedPause(text: string): number | null {
  const [, hours, minutes, seconds, count, unit] = ASKED.exec(wordingOf(text).words) ?? [];
  if (hours !== undefined) return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
  if (unit === undefined || !Object.hasOwn(UNITS, unit)) return null;
  return Number(count) * (UNITS[unit] ?? 0);
}
