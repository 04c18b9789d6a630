/** Choices of filters: what the account has, for a select. A value of the address that is not among them stays one. */
import type { Visit } from './page.ts';

export interface Choice {
  value: string;
  label: string;
  on: boolean;
}

/** Lists have more than a select can show from here on: the newest are offered. */
const MOST = '100';

/** Returns the streams of the account, with the one that `?stream=` names chosen. */
export async function streamChoices(visit: Visit): Promise<Choice[]> {
  const { data } = await visit.ask('listStreams', { query: { limit: MOST } });
  return choicesOf(
    data.map(({ slug }) => [slug, slug]),
    visit.query.get('stream'),
  );
}

/** Returns the API keys of the account by name, with the one that `?key_id=` names chosen. */
export async function keyChoices(visit: Visit): Promise<Choice[]> {
  const { data } = await visit.ask('listKeys', { query: { limit: MOST } });
  return choicesOf(
    data.map(({ id, name }) => [id, name]),
    visit.query.get('key_id'),
  );
}

/** Returns the sending domains of the account, with the one that `?domain=` names chosen. */
export async function domainChoices(visit: Visit): Promise<Choice[]> {
  const { data } = await visit.ask('listDomains', { query: { status: 'any', limit: MOST } });
  return choicesOf(
    data.map(({ name }) => [name, name]),
    visit.query.get('domain'),
  );
}

/** Returns pairs of value and label as choices. */
export function choicesOf(
  pairs: readonly (readonly [value: string, label: string])[],
  chosen: string | null,
): Choice[] {
  const now = chosen ?? '';
  const known = now === '' || pairs.some(([value]) => value === now);
  const all = known ? pairs : [...pairs, [now, now] as const];
  return all.map(([value, label]) => ({ value, label, on: value === now }));
}
