/** Operations on the team: who signs in to the dashboard, with which role, and the links by which they set their password. */
import { z } from 'zod';
import { listAccounts } from '../../accounts/account-store.ts';
import { Problem, missing, notFound } from '../../base/problem.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import { HOUR_MS } from '../../base/time.ts';
import { each, flag, many, maybe, maybeTime, ofKind, text, time } from '../../api/record-schema.ts';
import { roleNames } from '../../keys/roles.ts';
import {
  addMember,
  changeMember,
  findMember,
  findMemberByEmail,
  listMembers,
  removeMember,
  listAdmins,
} from '../../members/member-store.ts';
import { INVITATION_MS, linksOf, makeSetUpLink } from '../../members/setup-link.ts';
import { recipientsOf } from '../../messages/store/message-store.ts';
import type { Act } from '../../operations/act.ts';
import { deliveryStatuses, type AccountRow, type MemberRow, type SetUpLinkRow } from '../../storage/tables.ts';
import { accountNamed } from './accounts.ts';
import { type StoreDeps, storeRoute } from '../server-route.ts';
import { notRunning } from '../../base/unavailable.ts';
import path from 'node:path';
import type { Config } from '../../config/schema.ts';

const emailArgument = z.string().min(1).max(320);
const memberArgument = emailArgument.describe('address or id');
const roleArgument = z.enum(roleNames);
const accountsArgument = z.array(z.string().min(1).max(200)).max(1000);
/** Mails the link; otherwise it is returned, to be handed over. */
const mailArgument = z.boolean().optional();

const Member = ofKind('member', {
  ...each(text(), 'id', 'email'),
  role: z.enum(roleNames),
  accounts: many(text()).describe('Names of those that the member sees; administrators see all, and have none here.'),
  second_factor: flag(),
  state: z.enum(['active', 'invited', 'expired']).describe('Someone who is invited has not set a password yet.'),
  invitation: z
    .object({
      expires_at: time(),
      mail: z.object({ message_id: text(), status: z.enum(deliveryStatuses), reply: maybe() }).nullable(),
    })
    .nullable(),
  created_at: time(),
  created_by: text(),
  last_sign_in_at: maybeTime(),
});
type Member = z.infer<typeof Member>;

const Link = ofKind('set_up_link', {
  ...each(text(), 'member', 'email'),
  url: maybe('Null if a mail carries it.'),
  expires_at: time(),
  not_mailed: maybe('Why no mail was sent although one was wanted.'),
});
export type LinkRecord = z.infer<typeof Link>;

const AdminLink = ofKind('set_up_link', {
  url: text(),
  expires_at: time('Until then it is good once.'),
  email: maybe('Null for the first administrator.'),
});

const words = { type: 'member', named: 'email', keeps: ['role', 'accounts'] } as const;

export const teamOperations = {
  'team.list': storeRoute({
    answer: z.object({ data: many(Member), cannot_mail: maybe('Why this server cannot mail an invitation.') }),
    async run(deps) {
      const able = await deps.invitations?.prepare([]);
      return { data: await teamOf(deps), cannot_mail: able?.kind === 'no' ? able.why : null };
    },
  }),
  /** Adds a member and invites them: with `mail` by a mail if that is possible now, otherwise by a link that is returned. */
  'team.add': storeRoute({
    answer: Link,
    act: { ...words, says: 'invited {email} to the team' },
    body: z.strictObject({
      email: emailArgument,
      role: roleArgument,
      accounts: accountsArgument,
      mail: mailArgument,
    }),
    async run(deps, { email, role, accounts, mail }, act) {
      act.on({ object: email });
      refuseMail(deps, mail);
      await refuseTooMany(deps);
      const named = await accountsNamed(deps, accounts);
      const input = { email, role, accountIds: idsOf(named), passwordHash: null, createdBy: act.actor };
      const member = await addMember(deps, input);
      act.on({ after: audited(member, named) });
      return await inviteFor(deps, member, { accountIds: input.accountIds, mail, act });
    },
  }),
  /**
   * Makes a new link: for an invited member another invitation, for others one that sets a new password and removes the second
   * factor, which is only handed over. Earlier links of the member end.
   */
  'team.link': storeRoute({
    answer: Link,
    act: { ...words, says: 'made a set-up link for {email}' },
    body: z.strictObject({ member: memberArgument, mail: mailArgument }),
    async run(deps, { member: name, mail }, act) {
      const member = await memberNamed(deps, name);
      act.on({ object: member.email });
      if (member.password_hash !== null) return handedOver(deps, member, await makeSetUpLink(deps, member.id), null);
      refuseMail(deps, mail);
      await refuseTooMany(deps);
      const accountIds = await accountIdsOf(deps, member);
      return await inviteFor(deps, member, { accountIds, mail, act });
    },
  }),
  'team.change': storeRoute({
    answer: Member,
    act: { ...words, says: 'changed the role or the accounts of {email}' },
    body: z.strictObject({ member: memberArgument, role: roleArgument, accounts: accountsArgument.optional() }),
    async run(deps, { member: name, role, accounts }, act) {
      const member = await memberNamed(deps, name);
      const all = await listAccounts(deps);
      const before = await accountIdsOf(deps, member);
      const had = all.filter(({ id }) => before.includes(id));
      const named = accounts === undefined ? had : await accountsNamed(deps, accounts);
      act.on({ before: audited(member, had), after: audited({ ...member, role }, named) });
      await changeMember(deps, member.id, { role, accountIds: idsOf(named) });
      return await recordOf(deps, member.id);
    },
  }),
  /** Removes a member with all sessions, or withdraws the invitation of one who never signed in. */
  'team.remove': storeRoute({
    answer: Member,
    act: { ...words, says: 'removed {email} from the team' },
    body: z.strictObject({ member: memberArgument }),
    async run(deps, { member: name }, act) {
      const member = await memberNamed(deps, name);
      act.on({ object: member.email });
      const record = await recordOf(deps, member.id);
      await removeMember(deps, member.id);
      return record;
    },
  }),
  /** Adds an administrator, who sets a password through the link. */
  'admin.create': storeRoute({
    answer: AdminLink,
    act: { says: 'added the administrator {email}', type: 'member', named: 'email' },
    body: z.strictObject({ email: emailArgument }),
    async run(deps, { email }, act) {
      act.on({ object: email });
      const fields = {
        email,
        role: 'administrator' as const,
        accountIds: [],
        passwordHash: null,
        createdBy: 'operator',
      };
      return await linkFor(deps, await addMember(deps, fields));
    },
  }),
  /** Makes a link that sets a new password and removes the second factor. The old ones work until it is used. */
  'admin.reset': storeRoute({
    answer: AdminLink,
    act: { says: 'made a link that resets the sign-in of {email}', type: 'member', named: 'email' },
    body: z.strictObject({ email: emailArgument.optional() }),
    async run(deps, { email }, act) {
      const member = await memberToReset(deps, email);
      act.on({ object: member?.email ?? 'the first administrator' });
      return await linkFor(deps, member);
    },
  }),
};

const accountIdsOf = async (deps: StoreDeps, { id: own }: MemberRow): Promise<readonly string[]> =>
  (await listMembers(deps)).find(({ id }) => id === own)?.accountIds ?? [];

const idsOf = (rows: readonly AccountRow[]): string[] => rows.map(({ id }) => id);

const audited = ({ email, role }: Pick<MemberRow, 'email' | 'role'>, accounts: readonly AccountRow[]) => ({
  email,
  role,
  accounts: accounts.map(({ name }) => name),
});

const accountsNamed = (deps: StoreDeps, names: readonly string[]): Promise<AccountRow[]> =>
  Promise.all(names.map((name) => accountNamed(deps, name)));

async function memberNamed(deps: StoreDeps, name: string): Promise<MemberRow> {
  const member = (await findMember(deps, name)) ?? (await findMemberByEmail(deps, name));
  if (member === null) throw notFound('member', 'There is no such member.');
  return member;
}

/** Throws `Unavailable` if a mail is wanted and no server runs, before a member is added. */
function refuseMail({ invitations }: StoreDeps, mail: boolean | undefined): void {
  if (mail === true && invitations === undefined) throw notRunning();
}

/** Invitations an hour: enough to add a large team in one go, and too few to annoy people with. */
const MOST_INVITATIONS = 50;

/** Throws `rate_limited` if too many links were made in the last hour. */
async function refuseTooMany({ db, clock }: StoreDeps): Promise<void> {
  const rows = await db.prepared.all<{ at: number }>(
    "SELECT at FROM audit WHERE account_id IS NULL AND key_id IS NULL AND operation IN ('team.add', 'team.link') AND result = 'ok' AND at > ? ORDER BY id DESC LIMIT ?",
    [clock.now() - HOUR_MS, MOST_INVITATIONS],
  );
  const oldest = rows[MOST_INVITATIONS - 1];
  if (oldest === undefined) return;
  const seconds = Math.ceil((oldest.at + HOUR_MS - clock.now()) / 1000);
  throw new Problem(
    'rate_limited',
    `There were ${String(MOST_INVITATIONS)} invitations in the last hour. Wait, then go on.`,
    {
      retryAfter: Math.max(1, seconds),
    },
  );
}

function handedOver(
  { config }: StoreDeps,
  { id, email }: MemberRow,
  { token, expiresAt }: { token: string; expiresAt: number },
  why: string | null,
): LinkRecord {
  return {
    object: 'set_up_link',
    member: id,
    email,
    url: linkUrl(config, token),
    expires_at: rfc3339(expiresAt),
    not_mailed: why,
  };
}

const linkUrl = (config: StoreDeps['config'], token: string): string => `${dashboardUrl(config)}/setup/${token}`;

async function inviteFor(
  deps: StoreDeps,
  member: MemberRow,
  { accountIds, mail, act }: { accountIds: readonly string[]; mail: boolean | undefined; act: Pick<Act, 'actor'> },
) {
  const lifeMs = INVITATION_MS;
  if (mail !== true || deps.invitations === undefined)
    return handedOver(deps, member, await makeSetUpLink(deps, member.id, { lifeMs }), null);
  const able = await deps.invitations.prepare(accountIds);
  if (able.kind === 'no') return handedOver(deps, member, await makeSetUpLink(deps, member.id, { lifeMs }), able.why);
  let written = (): void => undefined;
  const link = await makeSetUpLink(deps, member.id, {
    lifeMs,
    mail(made) {
      const notice = able.mail({
        to: member.email,
        url: linkUrl(deps.config, made.token),
        expiresAt: made.expiresAt,
        by: act.actor.replace(/^member:/, ''),
      });
      written = () => {
        notice.written();
      };
      return notice;
    },
  });
  written();
  return { ...handedOver(deps, member, link, null), url: null };
}

async function teamOf(deps: StoreDeps): Promise<Member[]> {
  const [members, accounts, links] = await Promise.all([listMembers(deps), listAccounts(deps), linksOf(deps)]);
  return await Promise.all(
    members.map(async (member): Promise<Member> => {
      const link = links.find(({ member_id }) => member_id === member.id) ?? null;
      const state = member.password_hash !== null ? 'active' : link === null ? 'expired' : 'invited';
      return {
        object: 'member',
        id: member.id,
        email: member.email,
        role: member.role,
        accounts: accounts.filter(({ id }) => member.accountIds.includes(id)).map(({ name }) => name),
        second_factor: member.totp_sealed !== null,
        state,
        invitation: state !== 'invited' || link === null ? null : await invitationOf(deps, link),
        created_at: rfc3339(member.created_at),
        created_by: member.created_by,
        last_sign_in_at: member.last_sign_in_at === null ? null : rfc3339(member.last_sign_in_at),
      };
    }),
  );
}

async function invitationOf({ db }: StoreDeps, link: SetUpLinkRow) {
  const { message_id, expires_at } = link;
  const [to] = message_id === null ? [] : await recipientsOf(db.reader, message_id, { limit: 1 });
  return {
    expires_at: rfc3339(expires_at),
    mail: message_id === null ? null : { message_id, status: to?.status ?? 'queued', reply: to?.smtp?.reply ?? null },
  };
}

async function recordOf(deps: StoreDeps, id: string) {
  const record = (await teamOf(deps)).find((one) => one.id === id);
  if (record === undefined) throw notFound('member', 'There is no such member.');
  return record;
}

/** Makes a link for the first administrator. Returns null if there is an administrator. */
export async function firstSetUpLink(deps: StoreDeps): Promise<Awaited<ReturnType<typeof linkFor>> | null> {
  return (await listAdmins(deps)).length > 0 ? null : await linkFor(deps, null);
}

async function memberToReset(deps: StoreDeps, email: string | undefined): Promise<MemberRow | null> {
  if (email !== undefined) {
    const member = await findMemberByEmail(deps, email);
    if (member !== null) return member;
    throw notFound('email', `there is no member ${JSON.stringify(email)}`);
  }
  const admins = await listAdmins(deps);
  if (admins.length <= 1) return admins[0] ?? null;
  const names = admins.map((admin) => admin.email).join(', ');
  throw missing('email', `say which administrator: ${names}`);
}

async function linkFor(deps: StoreDeps, member: MemberRow | null) {
  const { token, expiresAt } = await makeSetUpLink(deps, member?.id ?? null);
  const url = `${dashboardUrl(deps.config)}/setup/${token}`;
  return { object: 'set_up_link' as const, url, expires_at: rfc3339(expiresAt), email: member?.email ?? null };
}

/** Returns the file with the link of the first administrator: a log that no terminal shows has more readers than the data folder. */
export const setUpFile = (dataDir: string): string => path.join(dataDir, 'set-up-link');

/** Returns the address of the dashboard, without a slash at the end. */
export function dashboardUrl({ http, dashboard }: Pick<Config, 'http' | 'dashboard'>): string {
  const url = new URL(http.publicUrl);
  if (dashboard.port !== http.port) url.port = String(dashboard.port);
  return url.origin;
}
