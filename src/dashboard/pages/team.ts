/** The team and the accounts, for administrators. */
import { OWN_ACCOUNT } from '../../accounts/own-account.ts';
import { Problem } from '../../base/problem.ts';
import { isRole, rightsOf, roles, type Role } from '../../keys/roles.ts';
import type { LinkRecord } from '../../operator/team/team.ts';
import type { DashboardDeps } from '../deps.ts';
import { filledIn, definedMembers, fieldText } from '../forms.ts';
import type { ResultOf } from '../../operator/routes.ts';
import { adminGet, adminPost, move, once, view, withFault, type Page, type Shown, type Visit } from '../page.ts';
import { refuseStale, seenIn } from '../stale-forms.ts';
import { withPassword } from './proof.ts';

const TEAM = '/team';
const ACCOUNTS = '/accounts';

type Member = ResultOf<'team.list'>['data'][number];

/** The fields of a form on a member's page. */
type MemberAct = 'change' | 'link' | 'remove';

export function teamPages(deps: DashboardDeps): Page[] {
  const memberForm = (act: MemberAct, run: (deps: DashboardDeps, visit: Visit) => Promise<Shown>) =>
    withPassword(
      deps,
      (visit, fault) => details(visit, { fault, act }),
      (visit) => run(deps, visit),
    );
  return [
    adminGet(TEAM, (visit) => team(visit, null)),
    adminPost(
      TEAM,
      withPassword(deps, team, (visit) => add(deps, visit)),
    ),
    adminGet(`${TEAM}/:id`, (visit) => details(visit, null)),
    adminPost(`${TEAM}/:id`, memberForm('change', change)),
    adminPost(`${TEAM}/:id/link`, memberForm('link', newLink)),
    adminPost(`${TEAM}/:id/remove`, memberForm('remove', remove)),
    adminGet(ACCOUNTS, (visit) => accounts(deps, visit, null)),
    adminPost(
      ACCOUNTS,
      withFault(addAccount, (visit, fault) => accounts(deps, visit, fault)),
    ),
    adminPost(`${ACCOUNTS}/:id/plan`, plan),
    adminPost(`${ACCOUNTS}/:id/pause`, (visit) => pause(visit, true)),
    adminPost(`${ACCOUNTS}/:id/resume`, (visit) => pause(visit, false)),
  ];
}

async function team(visit: Visit, fault: Problem | null): Promise<Shown> {
  const { data, cannot_mail: why } = await visit.ask('team.list');
  const ticked = fault === null ? [visit.account.id] : chosen(visit);
  return view('team', 'Team', {
    rows: data.map((row) => ({ ...row, roleLabel: rightsOf(row.role).label, isAdmin: rightsOf(row.role).hasServer })),
    roles: rolesFor(roleIn(visit.form) ?? 'developer'),
    choices: choicesOf(visit, (id) => ticked.includes(id)).filter(({ id }) => id !== OWN_ACCOUNT),
    cannotMail: why,
    fault,
    entered: filledIn(visit.form),
  });
}

const choicesOf = ({ accounts: all }: Visit, isOn: (id: string, name: string) => boolean) =>
  all.map(({ id, name }) => ({ id, name, on: isOn(id, name) }));

const rolesFor = (chosenRole: string) => roles.map((role) => ({ ...role, on: role.name === chosenRole }));

function roleIn(form: URLSearchParams): Role | null {
  const text = form.get('role') ?? '';
  return isRole(text) ? text : null;
}

/** Returns the role of the form. Throws a Problem if none was chosen. */
function chosenRole(form: URLSearchParams): Role {
  const role = roleIn(form);
  if (role === null) throw new Problem('invalid_field', 'Choose a role.', { field: 'role' });
  return role;
}

/** Returns the ids of the form that belong to accounts. */
const chosen = ({ form, accounts: all }: Visit): string[] =>
  form.getAll('accounts').filter((id) => all.some((one) => one.id === id));

async function add(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const { form } = visit;
  const link = await visit.ask('team.add', {
    body: {
      email: form.get('email')?.trim() ?? '',
      role: chosenRole(form),
      accounts: chosen(visit),
      mail: form.get('by') !== 'hand',
    },
  });
  return linkShown(deps, link);
}

async function newLink(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const mail = visit.form.get('by') === 'mail';
  return linkShown(deps, await visit.ask('team.link', { body: { member: visit.params['id'] ?? '', mail } }));
}

/** Goes to the member if a mail has the link; otherwise shows it once, since only its hash is stored. */
function linkShown({ config }: DashboardDeps, { email, member, url, expires_at, not_mailed }: LinkRecord): Shown {
  if (url === null) return move(`${TEAM}/${member}`, `The invitation is on its way to ${email}.`);
  const data = { email, url, expiresAt: expires_at, why: not_mailed, ...addressFaults(config) };
  return once('team-link', 'Set-up link', data, `${TEAM}/${member}`);
}

/** Returns what is wrong with the address that links begin with. */
function addressFaults({ http }: DashboardDeps['config']): { isPlain: boolean } {
  return { isPlain: new URL(http.publicUrl).protocol === 'http:' };
}

/** Returns the member of the page, and why this server cannot mail an invitation. Throws a Problem if the member is gone. */
async function memberOf(visit: Visit): Promise<{ member: Member; why: string | null }> {
  const { data, cannot_mail: why } = await visit.ask('team.list');
  const member = data.find(({ id }) => id === visit.params['id']);
  if (member === undefined) throw new Problem('not_found', 'There is no such member.');
  return { member, why };
}

/** Returns what the form changes. */
const changeable = ({ role, accounts: names }: Member): unknown => [role, names];

/** Shows the page of a member. `failed` names the form that was refused, which is shown as it was filled in. */
async function details(visit: Visit, failed: { fault: Problem; act: MemberAct } | null): Promise<Shown> {
  const { member, why } = await memberOf(visit);
  const isFilled = failed?.act === 'change';
  const role = (isFilled ? roleIn(visit.form) : null) ?? member.role;
  const isOn = (id: string, name: string): boolean =>
    isFilled ? chosen(visit).includes(id) : member.accounts.includes(name);
  return view('team-member', member.email, {
    member,
    seen: seenIn(visit.form, failed?.fault ?? null, changeable(member)),
    isInvited: member.state !== 'active',
    roles: rolesFor(role),
    choices: choicesOf(visit, isOn).filter(({ id, on }) => on || id !== OWN_ACCOUNT),
    isMe: member.id === visit.member.id,
    cannotMail: why,
    fault: failed?.fault ?? null,
    failed: failed?.act ?? null,
  });
}

async function change(_: DashboardDeps, visit: Visit): Promise<Shown> {
  const { member } = await memberOf(visit);
  refuseStale(visit.form, changeable(member));
  await visit.ask('team.change', {
    body: { member: member.id, role: chosenRole(visit.form), accounts: chosen(visit) },
  });
  return move(TEAM, 'Changed, with effect at once.');
}

async function remove(_: DashboardDeps, visit: Visit): Promise<Shown> {
  const { state, email } = await visit.ask('team.remove', { body: { member: visit.params['id'] ?? '' } });
  return move(
    TEAM,
    state === 'active' ? `${email} is removed, and signed out everywhere.` : `The invitation of ${email} is withdrawn.`,
  );
}

async function accounts({ config }: DashboardDeps, visit: Visit, fault: Problem | null): Promise<Shown> {
  const { data } = await visit.ask('accounts.list');
  const plans = Object.entries(config.plans).map(([name, limits]) => ({ name, ...limits }));
  const rows = data.map((row) => ({
    ...row,
    isThis: row.id === visit.account.id,
    plans: plans.map(({ name }) => ({ name, on: name === row.plan })),
  }));
  return view('accounts', 'Accounts', { rows, plans, fault, entered: filledIn(visit.form) });
}

async function addAccount(visit: Visit): Promise<Shown> {
  const { form } = visit;
  const { name } = await visit.ask('accounts.add', {
    body: {
      name: form.get('name') ?? '',
      ...definedMembers({ plan: fieldText(form, 'plan') }),
    },
  });
  return move(ACCOUNTS, `The account ${name} is made.`);
}

async function plan(visit: Visit): Promise<Shown> {
  await visit.ask('accounts.plan', { body: { account: visit.params['id'] ?? '', plan: visit.form.get('plan') ?? '' } });
  return move(ACCOUNTS, 'The plan is changed.');
}

async function pause(visit: Visit, paused: boolean): Promise<Shown> {
  await visit.ask('accounts.pause', { body: { account: visit.params['id'] ?? '', paused } });
  return move(
    ACCOUNTS,
    paused ? 'Paused: its mail is refused, and what waits is held.' : 'Resumed: what waited is sent.',
  );
}
