/** The team, for administrators: who signs in, with which role, to which accounts. */
import { OWN_ACCOUNT } from '../../accounts/account-store.ts';
import { Problem } from '../../base/problem.ts';
import { rightsOf, roles } from '../../keys/roles.ts';
import type { LinkRecord } from '../../operator/team/team.ts';
import { move, once, type Page, type Shown, type Visit } from '../page.ts';
import { resource } from '../resource.ts';

const TEAM = '/team';

/** Reads the ids of the form that belong to accounts. */
const reads = {
  accounts: ({ form, accounts: all }: Visit) => ({
    accounts: form.getAll('accounts').filter((id) => all.some((one) => one.id === id)),
  }),
};

export const teamPages: readonly Page[] = [
  ...resource({
    path: TEAM,
    view: 'team',
    title: 'Team',
    who: 'admin',
    async load(visit) {
      const { data, cannot_mail: cannotMail } = await visit.ask('team.list');
      const rows = data.map((row) => ({ ...row, ...rightsOf(row.role) }));
      return { rows, roles, cannotMail, choices: visit.accounts.filter(({ id }) => id !== OWN_ACCOUNT) };
    },
    reads,
    acts: {
      async [TEAM](visit, body) {
        const mail = visit.form.get('by') !== 'hand';
        return linkShown(visit, await visit.ask('team.add', { body: { ...body, mail } as never }));
      },
    },
  }),
  ...resource({
    path: `${TEAM}/:id`,
    view: 'team-member',
    title: ({ record }) => record.email,
    who: 'admin',
    load: memberOf,
    reads,
    acts: {
      async [`${TEAM}/:id/link`](visit, body) {
        const mail = visit.form.get('by') === 'mail';
        return linkShown(visit, await visit.ask('team.link', { body: { ...body, mail } as never }));
      },
    },
  }),
];

async function memberOf(visit: Visit) {
  const { data, cannot_mail: cannotMail } = await visit.ask('team.list');
  const member = data.find(({ id }) => id === visit.params['id']);
  if (member === undefined) throw new Problem('not_found', 'There is no such member.');
  const chosen = visit.accounts.filter(({ name }) => member.accounts.includes(name)).map(({ id }) => id);
  return {
    ...{ record: member, roles, chosen, cannotMail },
    isInvited: member.state !== 'active',
    removal: `Remove ${member.id === visit.member.id ? 'yourself' : 'this member'}…`,
    choices: visit.accounts.filter(({ id }) => id !== OWN_ACCOUNT || chosen.includes(id)),
  };
}

/** Goes to the member if a mail has the link; otherwise shows it once, since only its hash is stored. */
function linkShown({ server }: Visit, { email, member, url, expires_at, not_mailed }: LinkRecord): Shown {
  if (url === null) return move(`${TEAM}/${member}`, `The invitation is on its way to ${email}.`);
  const isPlain = new URL(server.config.http.publicUrl).protocol === 'http:';
  const data = { email, url, expiresAt: expires_at, why: not_mailed, isPlain };
  return once('team-link', 'Set-up link', data, `${TEAM}/${member}`);
}
