/** Signing in and out, the second factor, and the choice of light and dark. */
import { signIn, signInWithCode, type SignIn } from '../../members/sign-in.ts';
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
  return { kind: 'move', to: '/login', say: 'You are signed out.', cookies: [{ name: 'session', value: null }] };
}

async function loginForm(guest: Guest, next: string | null, fault: string | null): Promise<Shown> {
  const isEmpty = (await listAdmins(guest.server)).length === 0;
  const data = { next: placeWithin(next), fault, email: guest.form.get('email'), isEmpty };
  return view('login', 'Sign in', data, fault === null ? 200 : 401);
}

async function login(guest: Guest): Promise<Shown> {
  const { form } = guest;
  const entered = { email: form.get('email') ?? '', password: form.get('password') ?? '' };
  const result = await signIn(guest.server, entered, guest);
  const next = placeWithin(form.get('next'));
  if (result.kind === 'refused') return loginForm(guest, next, 'Wrong e-mail address or password.');
  if (result.kind === 'wait') return loginForm(guest, next, waitText(result.seconds));
  return await completeSignIn(guest, result, next);
}

function codeForm(guest: Guest, next: string | null, fault: string | null): Shown {
  if (guest.halfway === null) return move('/login', 'Sign in with your password first.');
  const data = { next: placeWithin(next), fault, isRecovery: guest.form.has('recovery_code') };
  return view('login-code', 'Second factor', data, fault === null ? 200 : 401);
}

async function checkCode(guest: Guest): Promise<Shown> {
  const next = placeWithin(guest.form.get('next'));
  if (guest.halfway === null) return move('/login', 'That took too long: sign in with your password again.');
  const recovery = guest.form.get('recovery_code');
  const entered =
    recovery === null
      ? ({ kind: 'app', text: guest.form.get('code') ?? '' } as const)
      : ({ kind: 'recovery', text: recovery } as const);
  const result = await signInWithCode(guest.server, guest.halfway, entered, guest);
  if (result.kind === 'refused') return codeForm(guest, next, 'This code is wrong or was already used.');
  if (result.kind === 'wait') return codeForm(guest, next, waitText(result.seconds));
  return await completeSignIn(guest, result, next);
}

type CompletedSignIn = Exclude<SignIn, { kind: 'refused' | 'wait' }>;

/** Signs in with a new cookie at each step, so that an earlier one, whatever its origin, is worth nothing (session fixation). */
async function completeSignIn(guest: Guest, result: CompletedSignIn, next: string): Promise<Shown> {
  const to = result.kind === 'code' ? `/login/code?next=${encodeURIComponent(next)}` : next;
  const cookies: readonly Cookie[] = [
    { name: 'session', value: result.token },
    ...(result.kind === 'in' ? [{ name: 'device', value: result.device } as const] : []),
  ];
  if (result.kind === 'in') await auditSignIn(guest, result.member);
  const say = result.kind === 'in' && result.codesLeft !== null ? codesLeftText(result.codesLeft) : undefined;
  return { kind: 'move', to, cookies, ...(say === undefined ? {} : { say }) };
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

export const waitText = (seconds: number): string =>
  `Too many tries. Wait ${seconds < 120 ? `${String(seconds)} seconds` : `${String(Math.ceil(seconds / 60))} minutes`}, then try again.`;
