/** Operations on administrators: making the first one, and resetting the sign-in of one. */
import path from 'node:path';
import { z } from 'zod';
import { Problem } from '../../base/problem.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import type { Config } from '../../config/schema.ts';
import { addMember, findMemberByEmail, listAdmins } from '../../members/member-store.ts';
import { makeSetUpLink } from '../../members/setup-link.ts';
import type { MemberRow } from '../../storage/tables.ts';
import type { StoreDeps } from '../deps.ts';
import { storeRoute } from '../server-route.ts';

const emailArgument = z.string().min(1).max(320);

export const adminOperations = {
  /** Adds an administrator, who sets a password through the link. */
  'admin.create': storeRoute({
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
    act: { says: 'made a link that resets the sign-in of {email}', type: 'member', named: 'email' },
    body: z.strictObject({ email: emailArgument.optional() }),
    async run(deps, { email }, act) {
      const member = await memberToReset(deps, email);
      act.on({ object: member?.email ?? 'the first administrator' });
      return await linkFor(deps, member);
    },
  }),
};

/** Makes a link for the first administrator. Returns null if there is an administrator. */
export async function firstSetUpLink(deps: StoreDeps): Promise<Awaited<ReturnType<typeof linkFor>> | null> {
  return (await listAdmins(deps)).length > 0 ? null : await linkFor(deps, null);
}

async function memberToReset(deps: StoreDeps, email: string | undefined): Promise<MemberRow | null> {
  if (email !== undefined) {
    const member = await findMemberByEmail(deps, email);
    if (member !== null) return member;
    throw new Problem('not_found', `there is no member ${JSON.stringify(email)}`, { field: 'email' });
  }
  const admins = await listAdmins(deps);
  if (admins.length <= 1) return admins[0] ?? null;
  const names = admins.map((admin) => admin.email).join(', ');
  throw new Problem('missing_field', `say which administrator: ${names}`, { field: 'email' });
}

/** Makes a link that is good once, until `expires_at`; `email` is null for the first administrator. */
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
