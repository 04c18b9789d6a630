/** The team and the accounts, for administrators. */
import { Problem } from '../../base/problem.ts';
import { addMember, changeMember, findMember, listMembers, removeMember } from '../../members/member-store.ts';
import { makeSetUpLink } from '../../members/setup-link.ts';
import { dashboardUrl } from '../../operator/admin.ts';
import type { MemberRow } from '../../storage/tables.ts';
import type { Deed } from '../../operations/audit-row.ts';
import { actRows, type DashboardAct } from '../act.ts';
import type { DashboardDeps } from '../deps.ts';
import { filledIn, definedMembers, fieldText } from '../forms.ts';
import { adminGet, adminPost, move, once, view, withFault, type Page, type Shown, type Visit } from '../page.ts';
import { withPassword } from './proof.ts';

const TEAM = '/team';
const ACCOUNTS = '/accounts';

/** The fields of a form on a member's page. */
type MemberAct = 'change' | 'link' | 'remove';

export function teamPages(deps: DashboardDeps): Page[] {
  const memberForm = (act: MemberAct, run: (deps: DashboardDeps, visit: Visit) => Promise<Shown>) =>
    withPassword(
      deps,
      (visit, fault) => details(deps, visit, { fault, act }),
      (visit) => run(deps, visit),
    );
  return [
    adminGet(TEAM, (visit) => team(deps, visit, null)),
    adminPost(
      TEAM,
      withPassword(
        deps,
        (visit, fault) => team(deps, visit, fault),
        (visit) => add(deps, visit),
      ),
    ),
    adminGet(`${TEAM}/:id`, (visit) => details(deps, visit, null)),
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

const rowsFor = (deps: DashboardDeps, { member, ip, userAgent, account }: Visit, name: DashboardAct, deed: Deed) =>
  actRows(deps, { email: member.email, ip, userAgent }, name, account.id, deed);

async function team(deps: DashboardDeps, visit: Visit, fault: Problem | null): Promise<Shown> {
  const members = await listMembers(deps);
  const nameOf = new Map(visit.accounts.map(({ id, name }) => [id, name]));
  const rows = members.map((row) => ({
    id: row.id,
    email: row.email,
    isAdmin: row.is_admin === 1,
    sees: row.accountIds.map((id) => nameOf.get(id) ?? id),
    hasSecondFactor: row.totp_sealed !== null,
    isWaiting: row.password_hash === null,
    lastSignIn: row.last_sign_in_at,
  }));
  const ticked = fault === null ? [visit.account.id] : chosen(visit);
  const choices = visit.accounts.map(({ id, name }) => ({ id, name, on: ticked.includes(id) }));
  return view('team', 'Team', { rows, choices, fault, entered: filledIn(visit.form) });
}

async function add(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const { form, actor } = visit;
  const wanted = {
    email: form.get('email') ?? '',
    isAdmin: form.get('role') === 'admin',
    accountIds: chosen(visit),
    passwordHash: null,
    createdBy: actor,
  };
  const member = await addMember(deps, wanted, () =>
    rowsFor(deps, visit, 'team.add', { after: seen(wanted.email, wanted) }),
  );
  return await linkFor(deps, member, visit);
}

/** Returns what the audit keeps of a member. */
const seen = (email: string, { isAdmin, accountIds }: { isAdmin: boolean; accountIds: readonly string[] }) => ({
  email,
  is_admin: isAdmin ? 'yes' : 'no',
  accounts: accountIds,
});

/** Returns the ids of the form that belong to accounts. */
const chosen = ({ form, accounts: all }: Visit): string[] =>
  form.getAll('accounts').filter((id) => all.some((one) => one.id === id));

/** Shows the link once, since only its hash is stored. */
async function linkFor(deps: DashboardDeps, member: MemberRow, visit: Visit): Promise<Shown> {
  const { token, expiresAt } = await makeSetUpLink(deps, member.id);
  await deps.db.commit.insert(rowsFor(deps, visit, 'team.link', { object: member.email }));
  const url = `${dashboardUrl(deps.config)}/setup/${token}`;
  return once('team-link', 'Set-up link', { email: member.email, url, expiresAt });
}

async function newLink(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const member = await findMember(deps, visit.params['id'] ?? '');
  if (member === null) throw new Problem('not_found', 'There is no such member.');
  return await linkFor(deps, member, visit);
}

/** Shows the page of a member. `failed` names the form that was refused, which is shown as it was filled in. */
async function details(
  deps: DashboardDeps,
  visit: Visit,
  failed: { fault: Problem; act: MemberAct } | null,
): Promise<Shown> {
  const member = (await listMembers(deps)).find(({ id }) => id === visit.params['id']);
  if (member === undefined) throw new Problem('not_found', 'There is no such member.');
  const filled =
    failed?.act === 'change'
      ? { isAdmin: visit.form.get('role') === 'admin', accountIds: chosen(visit) }
      : { isAdmin: member.is_admin === 1, accountIds: member.accountIds };
  const data = {
    id: member.id,
    email: member.email,
    isAdmin: filled.isAdmin,
    hasSecondFactor: member.totp_sealed !== null,
    lastSignIn: member.last_sign_in_at,
    madeAt: member.created_at,
    madeBy: member.created_by,
    choices: visit.accounts.map(({ id, name }) => ({ id, name, on: filled.accountIds.includes(id) })),
    isMe: member.id === visit.member.id,
    fault: failed?.fault ?? null,
    failed: failed?.act ?? null,
  };
  return view('team-member', member.email, data);
}

async function change(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const wanted = { isAdmin: visit.form.get('role') === 'admin', accountIds: chosen(visit) };
  const before = (await listMembers(deps)).find(({ id }) => id === visit.params['id']);
  const email = before?.email ?? '';
  const deed = {
    before: seen(email, { isAdmin: before?.is_admin === 1, accountIds: before?.accountIds ?? [] }),
    after: seen(email, wanted),
  };
  await changeMember(deps, visit.params['id'] ?? '', wanted, () => rowsFor(deps, visit, 'team.change', deed));
  return move(TEAM, 'Changed, with effect at once.');
}

async function remove(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const member = await findMember(deps, visit.params['id'] ?? '');
  const deed = { object: member?.email ?? null };
  await removeMember(deps, visit.params['id'] ?? '', () => rowsFor(deps, visit, 'team.remove', deed));
  return move(TEAM, 'The member is removed, and signed out everywhere.');
}

async function accounts({ config }: DashboardDeps, visit: Visit, fault: Problem | null): Promise<Shown> {
  const { data } = await visit.operate('accounts.list', {});
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
  const { name } = await visit.operate('accounts.add', {
    name: form.get('name') ?? '',
    ...definedMembers({ plan: fieldText(form, 'plan') }),
  });
  return move(ACCOUNTS, `The account ${name} is made.`);
}

async function plan(visit: Visit): Promise<Shown> {
  await visit.operate('accounts.plan', { account: visit.params['id'] ?? '', plan: visit.form.get('plan') ?? '' });
  return move(ACCOUNTS, 'The plan is changed.');
}

async function pause(visit: Visit, paused: boolean): Promise<Shown> {
  await visit.operate('accounts.pause', { account: visit.params['id'] ?? '', paused });
  return move(ACCOUNTS, paused ? 'Paused: its mail is refused, and what waits is held.' : 'It goes on.');
}
