/** API keys: list, creation, the one time a key is shown, change, rotation and revocation. */
import { Problem, invalid, missing } from '../../base/problem.ts';
import { DAY_MS } from '../../base/time.ts';
import { presets, scopeGroups } from '../../keys/scopes.ts';
import type { CreatedKey, Key } from '../../client/types.ts';
import { fieldItems, fieldText } from '../forms.ts';
import { linkTo, pageOf, pagerOf } from '../links.ts';
import { get, move, once, view, type Page, type Shown, type Visit } from '../page.ts';
import { samplesOf } from '../samples.ts';
import { provenPassword } from './sign-in.ts';
import { resource } from '../resource.ts';
import { agoText } from '../words.ts';

/** A key that was not used for this time is shown as idle. */
const IDLE_MS = 30 * DAY_MS;
const WHERE = '/developer/keys';

/** Reads fields that are several of the form. */
const reads = {
  allowed_ips: addressesIn,
  ttl: endIn,
};

export const keyPages: readonly Page[] = [
  get('/developer', () => move(WHERE)),
  get(WHERE, list),
  ...resource({
    path: `${WHERE}/new`,
    view: 'key-new',
    title: 'New API key',
    scope: 'key',
    load: newForm,
    reads: { ...reads, preset: (visit) => ({ scopes: scopesOf(visit) }) },
    acts: {
      async [`${WHERE}/new`](visit, body) {
        // A live key outlives the session.
        if (visit.form.get('mode') !== 'test') await provenPassword(visit);
        const { expires_at: end, ...others } = body as { expires_at?: string | null };
        const made = { ...others, ...(end == null ? {} : { expires_at: end }) };
        return shownOnce(visit, await visit.ask('createKey', { body: made }));
      },
    },
  }),
  ...resource({
    path: `${WHERE}/:id`,
    view: 'key',
    title: ({ key }) => key.name,
    load: details,
    reads,
    acts: { [`${WHERE}/:id/replace`]: replace },
  }),
];

async function list(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const keys = await visit.ask('listKeys', { query: pageOf(query) });
  const rows = keys.data.map((key) => ({
    ...key,
    ...stateOf(key, now),
    scopesShown: key.scopes.slice(0, 4),
    scopesMore: Math.max(0, key.scopes.length - 4),
  }));
  return view('keys', 'API keys', { rows, pager: pagerOf(WHERE, query, keys) });
}

type State = 'active' | 'expired' | 'revoked' | 'ending';

function stateOf(key: Key, now: number): { state: State; isIdle: boolean; isOver: boolean } {
  const { revoked_at: revoked, expires_at: expires, last_used_at: used, created_at: created } = key;
  const isRevoked = revoked !== null && Date.parse(revoked) <= now;
  const isExpired = expires !== null && Date.parse(expires) <= now;
  const state = isRevoked ? 'revoked' : isExpired ? 'expired' : revoked !== null ? 'ending' : 'active';
  return { state, isOver: isRevoked || isExpired, isIdle: Date.parse(used ?? created) + IDLE_MS < now };
}

const addressLabel = ({ ip }: Visit): string => `Add my address, \`${ip}\``;

const presetOf = ({ form, query }: Visit): string => form.get('preset') ?? query.get('preset') ?? 'send';
const scopesOf = (visit: Visit): readonly string[] =>
  presets.find(({ name }) => name === presetOf(visit))?.scopes ?? visit.form.getAll('scopes');

async function newForm(visit: Visit) {
  const domains = await visit.ask('listDomains', { query: { status: 'any', limit: '100' } });
  const chosen = presetOf(visit);
  return {
    presets: presets.map((one) => ({ ...one, list: one.scopes.join(' '), on: one.name === chosen })),
    isCustom: !presets.some(({ name }) => name === chosen),
    groups: scopeGroups(),
    ticked: scopesOf(visit),
    domains: domains.data.map(({ name }) => name),
    ownAddress: addressLabel(visit),
  };
}

/** Returns the addresses that the form allows; a box adds the visitor's own. */
function addressesIn({ form, ip }: Visit): object {
  const ips = fieldItems(form, 'allowed_ips');
  return { allowed_ips: !form.has('my_address') || ips.includes(ip) ? ips : [...ips, ip] };
}

/** Returns the end that the form chooses; nothing if it stays. */
function endIn({ form, now }: Visit): { expires_at?: string | null } {
  const choice = form.get('ttl') ?? 'keep';
  const days = { 30: 30, 90: 90, 365: 365 }[choice];
  if (days !== undefined) return { expires_at: new Date(now + days * DAY_MS).toISOString() };
  if (choice !== 'date') return choice === 'none' ? { expires_at: null } : {};
  const date = fieldText(form, 'expires_on');
  if (date === undefined) throw missing('expires_on', 'give the day on which the key ends');
  // The day is one of UTC, and the key is valid until its end.
  const end = Date.parse(`${date}T23:59:59Z`);
  if (!(end > now)) throw invalid('expires_on', 'the day must be in the future');
  return { expires_at: new Date(end).toISOString() };
}

function shownOnce({ server: { config } }: Visit, made: CreatedKey): Shown {
  const url = config.http.publicUrl;
  const env = `POSTHORN_API_KEY=${made.key}\nPOSTHORN_BASE_URL=${url}\n`;
  const canSend = made.scopes.includes('send');
  const samples = samplesOf({ url, simulator: config.simulator.domain, key: made.key });
  const data = { made, canSend, samples, env: `data:text/plain;charset=utf-8,${encodeURIComponent(env)}` };
  return once('key-made', 'Your new API key', data, WHERE);
}

async function details(visit: Visit) {
  const key = await visit.ask('getKey', { params: visit.params });
  const { last_used_at: used, last_used_ip: ip } = key;
  return {
    ...{ key, record: key, groups: scopeGroups(), ownAddress: addressLabel(visit) },
    ...stateOf(key, visit.now),
    lastUse: `${used === null ? 'It was never used.' : `It was last used ${agoText(Date.parse(used), visit.now)}, from ${ip ?? ''}. Whatever uses it stops working at once.`} This cannot be undone.`,
    requests: linkTo('/developer/log', { key_id: key.id }),
    messages: linkTo('/messages', { key_id: key.id }),
  };
}

/** Creates a key with the same settings; the old one ends after the chosen hours. */
async function replace(visit: Visit): Promise<Shown> {
  const old = await visit.ask('getKey', { params: visit.params });
  if (stateOf(old, visit.now).isOver)
    throw new Problem(
      'invalid_state',
      'This key has ended since its page was opened, so it is not replaced. Create a new key, and choose when it ends.',
    );
  if (old.mode === 'live') await provenPassword(visit);
  const { name, mode, scopes, domains, allowed_ips, expires_at } = old;
  const revokeAfter = Math.round(Number(visit.form.get('hours') ?? '0') * 3600);
  const body = {
    ...{ name, mode, scopes, domains, allowed_ips, replaces: old.id, revoke_after: revokeAfter },
    ...(expires_at === null ? {} : { expires_at }),
  };
  return shownOnce(visit, await visit.ask('createKey', { body }));
}
