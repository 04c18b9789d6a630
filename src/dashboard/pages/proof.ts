/** Passwords in forms: a new one, and the present one, so that a stolen session or an unattended browser cannot send certain forms. */
import { Problem } from '../../base/problem.ts';
import { checkPassword } from '../../members/password.ts';
import { provePassword } from '../../members/sign-in.ts';
import type { Guest, Visit } from '../page.ts';
import { waitText } from './sign-in.ts';

/** Checks the password, and renews the session's cookie. Throws a Problem if it is missing or wrong, or was wrong too often in this session. */
export async function provenPassword(visit: Visit): Promise<void> {
  const { server, member, session, form } = visit;
  const field = 'password_now';
  const password = form.get(field) ?? '';
  if (password === '') throw new Problem('invalid_field', 'Enter your current password as well.', { field });
  const proof = await provePassword(server, { member, sessionId: session.id }, password, visit);
  if (proof.kind === 'wait')
    throw new Problem('rate_limited', waitText(proof.seconds), { field, retryAfter: proof.seconds });
  if (proof.kind === 'refused') throw new Problem('invalid_field', 'The current password is wrong.', { field });
  await visit.renewSession();
}

/** Reads a new password and its repetition. Throws a Problem if they differ or a guesser would find it soon. */
export function newPasswordIn({ form, server }: Guest, email: string): string {
  const { http, smtp } = server.config;
  const password = form.get('password') ?? '';
  checkPassword(password, [email, new URL(http.publicUrl).hostname, smtp.hostname]);
  if (password !== form.get('password_again'))
    throw new Problem('invalid_field', 'The two passwords are not the same.', { field: 'password_again' });
  return password;
}
