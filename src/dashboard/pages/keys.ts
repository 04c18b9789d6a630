/** API keys: list, creation, the one time a key is shown, change, rotation and revocation. */
import { Problem } from '../../base/problem.ts';
import { DAY_MS } from '../../base/time.ts';
import { presets, scopeGroups } from '../../keys/presets.ts';
import type { CreatedKey, Key } from '../../client/types.ts';
import type { DashboardDeps } from '../deps.ts';
import { filledIn, definedMembers, fieldItems, fieldText } from '../forms.ts';
import { linkTo, pageOf, pagerOf } from '../links.ts';
import { get, move, needs, once, post, view, withFault, type Page, type Shown, type Visit } from '../page.ts';
import { sampleCommands } from '../samples.ts';
import { provenPassword } from './proof.ts';
import { refuseStale, seenIn } from '../stale-forms.ts';

/** A key that was not used for this time is shown as idle. */
const IDLE_MS = 30 * DAY_MS;
const DAY_S = 86_400;
const WHERE = '/developer/keys';

export function keyPages(deps: DashboardDeps): Page[] {
  return [
    get('/developer', () => move(WHERE)),
    get(WHERE, list),
    needs(
      'key',
      get(`${WHERE}/new`, (visit) => newForm(visit, null)),
    ),
    needs('key', post(`${WHERE}/new`, withFault(create(deps), newForm))),
    get(`${WHERE}/:id`, (visit) => details(visit, null)),
    post(`${WHERE}/:id`, withFault(change, details)),
    post(`${WHERE}/:id/revoke`, revoke),
    needs('key', post(`${WHERE}/:id/replace`, withFault(replace(deps), details))),
  ];
}

async function list(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const keys = await visit.ask('listKeys', { query: pageOf(query) });
  const rows = keys.data.map((key) => ({
    ...key,
    ...stateOf(key, now),
    scopesShown: key.scopes.slice(0, 4),
    scopesMore: Math.max(0, key.scopes.length - 4),
  }));
  return view('keys', 'API keys', { tab: 'keys', rows, pager: pagerOf(WHERE, query, keys) });
}

type State = 'active' | 'expired' | 'revoked' | 'ending';

function stateOf(key: Key, now: number): { state: State; isIdle: boolean; isOver: boolean } {
  const { revoked_at: revoked, expires_at: expires, last_used_at: used, created_at: created } = key;
  const isRevoked = revoked !== null && Date.parse(revoked) <= now;
  const isExpired = expires !== null && Date.parse(expires) <= now;
  const state = isRevoked ? 'revoked' : isExpired ? 'expired' : revoked !== null ? 'ending' : 'active';
  return { state, isOver: isRevoked || isExpired, isIdle: Date.parse(used ?? created) + IDLE_MS < now };
}

const boxes = (ticked: readonly string[]): object[] =>
  scopeGroups().map(({ area, scopes }) => ({
    area,
    scopes: scopes.map(({ name, meaning }) => ({ name, meaning, on: ticked.includes(name) })),
  }));

async function newForm(visit: Visit, fault: Problem | null): Promise<Shown> {
  const { form, query, ip } = visit;
  const domains = await visit.ask('listDomains', {
    query: { status: 'any', limit: '100' },
  });
  const chosen = form.get('preset') ?? query.get('preset') ?? 'send';
  const preset = presets.find(({ name }) => name === chosen);
  const wanted = form.getAll('domains');
  return view('key-new', 'New API key', {
    tab: 'keys',
    fault,
    entered: { mode: 'live', ttl: 'none', ...filledIn(form) },
    presets: presets.map((one) => ({ ...one, list: one.scopes.join(' '), on: one.name === chosen })),
    isCustom: preset === undefined,
    groups: boxes(preset?.scopes ?? form.getAll('scopes')),
    domains: domains.data.map(({ name }) => ({ name, on: wanted.includes(name) })),
    ip,
  });
}

const create =
  (deps: DashboardDeps) =>
  async (visit: Visit): Promise<Shown> => {
    const { form, now } = visit;
    const mode = form.get('mode') === 'test' ? 'test' : 'live';
    // A live key outlives the session.
    if (mode === 'live') await provenPassword(deps, visit);
    const preset = presets.find(({ name }) => name === form.get('preset'));
    const body = definedMembers({
      name: form.get('name') ?? '',
      mode,
      scopes: preset?.scopes ?? form.getAll('scopes'),
      domains: form.getAll('domains'),
      allowed_ips: addressesIn(visit),
      ...lifetime(form, now),
    });
    const made = await visit.ask('createKey', { body });
    return shownOnce(deps.config, made);
  };

/** Returns the addresses that the form allows; a box adds the visitor's own. */
function addressesIn({ form, ip }: Visit): string[] {
  const ips = fieldItems(form, 'allowed_ips');
  return form.get('my_address') === null || ips.includes(ip) ? ips : [...ips, ip];
}

function lifetime(form: URLSearchParams, now: number): { ttl?: number; expires_at?: string } {
  const choice = form.get('ttl') ?? 'none';
  if (choice === 'date') {
    const date = fieldText(form, 'expires_on');
    if (date === undefined)
      throw new Problem('missing_field', 'give the day on which the key ends', { field: 'expires_on' });
    // The day is one of UTC, and the key is valid until its end.
    const end = Date.parse(`${date}T23:59:59Z`);
    if (!(end > now)) throw new Problem('invalid_field', 'the day must be in the future', { field: 'expires_on' });
    return { expires_at: new Date(end).toISOString() };
  }
  const days = { 30: 30, 90: 90, 365: 365 }[choice];
  return days === undefined ? {} : { ttl: days * DAY_S };
}

function shownOnce(config: DashboardDeps['config'], made: CreatedKey): Shown {
  const url = config.http.publicUrl;
  const env = `POSTHORN_API_KEY=${made.key}\nPOSTHORN_BASE_URL=${url}\n`;
  const canSend = made.scopes.includes('send');
  const samples = sampleCommands({ url, simulator: config.simulator.domain, key: made.key });
  const data = {
    tab: 'keys',
    made,
    canSend,
    samples,
    env: `data:text/plain;charset=utf-8,${encodeURIComponent(env)}`,
    url,
  };
  return once('key-made', 'Your new API key', data, WHERE);
}

async function details(visit: Visit, fault: Problem | null): Promise<Shown> {
  const key = await visit.ask('getKey', { params: visit.params });
  const { form } = visit;
  const isChange = fault !== null && form.has('name');
  return view('key', key.name, {
    tab: 'keys',
    key,
    seen: seenIn(form, fault, changeable(key)),
    ...stateOf(key, visit.now),
    fault,
    entered: isChange
      ? filledIn(form)
      : { name: key.name, allowed_ips: key.allowed_ips.join('\n'), domains: key.domains.join('\n') },
    groups: boxes(isChange ? form.getAll('scopes') : key.scopes),
    ip: visit.ip,
    requests: linkTo('/developer/log', new URLSearchParams(), { key_id: key.id }),
  });
}

/** Returns the end that the form chooses; nothing if it stays. */
function newEnd(form: URLSearchParams, now: number): { expires_at?: string | null } {
  const choice = form.get('ttl') ?? 'keep';
  if (choice === 'keep') return {};
  const { ttl, expires_at: at } = lifetime(form, now);
  return { expires_at: at ?? (ttl === undefined ? null : new Date(now + ttl * 1000).toISOString()) };
}

/** Returns what the form changes. */
const changeable = ({ name, scopes, domains, allowed_ips: ips, expires_at: end }: Key): unknown => [
  name,
  scopes,
  domains,
  ips,
  end,
];

async function change(visit: Visit): Promise<Shown> {
  const { form, params } = visit;
  refuseStale(form, changeable(await visit.ask('getKey', { params })));
  await visit.ask('updateKey', {
    params,
    body: {
      name: form.get('name') ?? '',
      scopes: form.getAll('scopes'),
      domains: fieldItems(form, 'domains'),
      allowed_ips: addressesIn(visit),
      ...newEnd(form, visit.now),
    },
  });
  return move(`${WHERE}/${params['id'] ?? ''}`, 'Changed, with effect at once.');
}

async function revoke(visit: Visit): Promise<Shown> {
  await visit.ask('revokeKey', { params: visit.params });
  return move(WHERE, 'Revoked. Requests with this key are refused.');
}

/** Creates a key with the same settings; the old one ends after the chosen hours. */
const replace =
  (deps: DashboardDeps) =>
  async (visit: Visit): Promise<Shown> => {
    const old = await visit.ask('getKey', { params: visit.params });
    if (stateOf(old, visit.now).isOver)
      throw new Problem(
        'invalid_state',
        'This key has ended since its page was opened, so it is not replaced. Create a new key, and choose when it ends.',
      );
    const hours = Number(visit.form.get('hours') ?? '0');
    if (old.mode === 'live') await provenPassword(deps, visit);
    const { name, mode, scopes, domains, allowed_ips, expires_at } = old;
    const body = {
      ...{ name, mode, scopes, domains, allowed_ips, replaces: old.id, revoke_after: Math.round(hours * 3600) },
      ...(expires_at === null ? {} : { expires_at }),
    };
    return shownOnce(deps.config, await visit.ask('createKey', { body }));
  };
