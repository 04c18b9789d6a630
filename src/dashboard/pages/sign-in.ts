/** Signing in and out, the second factor, passwords in other forms, and the choice of light and dark. */
import { Problem, invalid } from '../../base/problem.ts';
import { checkPassword } from '../../members/password.ts';
import { provePassword, signIn, signInWithCode, type SignIn } from '../../members/sign-in.ts';
import { accountsOf, listAdmins } from '../../members/member-store.ts';
import { chooseAccount, closeSession, findSession, type Session } from '../../members/session-store.ts';
import type { MemberRow } from '../../storage/tables.ts';
import { actRows } from '../act.ts';
import { placeWithin } from '../links.ts';
import {
  get,
  move,
  openGet,
  openPost,
  post,
  view,
  type Cookie,
  type Guest,
  type Page,
  type Shown,
  type Visit,
} from '../page.ts';

export const signInPages: readonly Page[] = [
  openGet('/login', (guest) => loginForm(guest, guest.query.get('next'), null)),
  openPost('/login', login),
  openGet('/login/code', (guest) => codeForm(guest, guest.query.get('next'), null)),
  openPost('/login/code', checkCode, { knows: ({ halfway }) => halfway !== null }),
  // For public/forms.js, which asks for it before it sends a form.
  get('/session', () => view('session', 'Session')),
  // Open, since a member without an account has to sign out too.
  openPost('/logout', signOut, { knows: async (guest) => (await openSessionOf(guest)) !== null }),
  post('/account', choose),
  openPost('/theme', ({ form }) => {
    const theme = form.get('theme');
    const value = theme === 'dark' || theme === 'light' ? theme : null;
    return { kind: 'move', to: placeWithin(form.get('back')), cookies: [{ name: 'theme', value }] };
  }),
];

async function choose(visit: Visit): Promise<Shown> {
  const { server, form, accounts, session, member } = visit;
  const chosen = accounts.find(({ id }) => id === form.get('account'));
  const back = placeWithin(form.get('back'));
  if (chosen === undefined) return move(back, 'There is no such account.');
  await chooseAccount(server, session.id, chosen.id, () =>
    actRows(visit, member.email, 'account.choose', chosen.id, { object: chosen.name }),
  );
  return move(back, `You now look at ${chosen.name}.`);
}

async function openSessionOf({ server, sessionToken }: Guest): Promise<Session | null> {
  const session = await findSession(server, sessionToken, { isPoll: true });
  return session?.row.stage === 'open' ? session : null;
}

async function signOut(guest: Guest): Promise<Shown> {
  const session = await openSessionOf(guest);
  if (session === null) return move('/login');
  const { member, row } = session;
  const accounts = await accountsOf(guest.server, member);
  const account = accounts.find(({ id }) => id === row.account_id) ?? accounts[0];
  await closeSession(guest.server, member.id, row.id, () =>
    actRows(guest, member.email, 'sign-out', account?.id ?? null),
  );
  return { ...move('/login', 'You are signed out.'), cookies: [{ name: 'session', value: null }] };
}

async function loginForm(guest: Guest, next: string | null, fault: string | null): Promise<Shown> {
  const isEmpty = (await listAdmins(guest.server)).length === 0;
  const data = { next: placeWithin(next), fault, email: guest.form.get('email'), isEmpty };
  return view('login', 'Sign in', data, fault === null ? 200 : 401);
}

async function login(guest: Guest): Promise<Shown> {
  const { form, server } = guest;
  const entered = { email: form.get('email') ?? '', password: form.get('password') ?? '' };
  const result = await signIn(server, entered, guest);
  return await goOn(guest, result, 'Wrong e-mail address or password.', loginForm);
}

function codeForm(guest: Guest, next: string | null, fault: string | null): Shown {
  if (guest.halfway === null) return move('/login', 'Sign in with your password first.');
  const data = { next: placeWithin(next), fault, isRecovery: guest.form.has('recovery_code') };
  return view('login-code', 'Second factor', data, fault === null ? 200 : 401);
}

async function checkCode(guest: Guest): Promise<Shown> {
  const { form, halfway, server } = guest;
  if (halfway === null) return move('/login', 'That took too long: sign in with your password again.');
  const recovery = form.get('recovery_code');
  const entered =
    recovery === null
      ? ({ kind: 'app', text: form.get('code') ?? '' } as const)
      : ({ kind: 'recovery', text: recovery } as const);
  const result = await signInWithCode(server, halfway, entered, guest);
  return await goOn(guest, result, 'This code is wrong or was already used.', codeForm);
}

/** Signs in with a new cookie at each step, so that an earlier one, whatever its origin, is worth nothing (session fixation). */
async function goOn(guest: Guest, result: SignIn, refusal: string, again: typeof loginForm | typeof codeForm) {
  const next = placeWithin(guest.form.get('next'));
  if (result.kind === 'refused') return again(guest, next, refusal);
  if (result.kind === 'wait') return again(guest, next, waitText(result.seconds));
  const cookies: Cookie[] = [{ name: 'session', value: result.token }];
  if (result.kind === 'code') return { ...move(`/login/code?next=${encodeURIComponent(next)}`), cookies };
  cookies.push({ name: 'device', value: result.device });
  await auditSignIn(guest, result.member);
  return { ...move(next, result.codesLeft === null ? undefined : codesLeftText(result.codesLeft)), cookies };
}

const codesLeftText = (codes: number): string =>
  codes === 0
    ? 'You are signed in. That was your last recovery code: create new ones on the page of your login.'
    : `You are signed in. ${codes === 1 ? 'One recovery code is' : `${String(codes)} recovery codes are`} left; if your app is lost, set up another on the page of your login.`;

/** Writes the sign-in into the audit log of the member's account; failed ones are in the sign-in log only. */
async function auditSignIn(guest: Guest, member: MemberRow): Promise<void> {
  const [account] = await accountsOf(guest.server, member);
  if (account === undefined) return;
  await guest.server.db.commit.insert(actRows(guest, member.email, 'sign-in', account.id));
}

const waitText = (seconds: number): string =>
  `Too many tries. Wait ${seconds < 120 ? `${String(seconds)} seconds` : `${String(Math.ceil(seconds / 60))} minutes`}, then try again.`;

/** Checks the password, and renews the session's cookie. Throws a Problem if it is missing or wrong, or was wrong too often in this session. */
export async function provenPassword(visit: Visit): Promise<void> {
  const { server, member, session, form } = visit;
  const field = 'password_now';
  const password = form.get(field) ?? '';
  if (password === '') throw invalid(field, 'Enter your current password as well.');
  const proof = await provePassword(server, { member, sessionId: session.id }, password, visit);
  if (proof.kind === 'wait')
    throw new Problem('rate_limited', waitText(proof.seconds), { field, retryAfter: proof.seconds });
  if (proof.kind === 'refused') throw invalid(field, 'The current password is wrong.');
  await visit.renewSession();
}

/** Reads a new password and its repetition. Throws a Problem if they differ or a guesser would find it soon. */
export function newPasswordIn({ form, server }: Guest, email: string): string {
  const { http, smtp } = server.config;
  const password = form.get('password') ?? '';
  checkPassword(password, [email, new URL(http.publicUrl).hostname, smtp.hostname]);
  if (password !== form.get('password_again')) throw invalid('password_again', 'The two passwords are not the same.');
  return password;
}
