/** One's own login: password, second factor, open sessions, the last sign-ins. */
import { randomBytes } from 'node:crypto';
import { Problem } from '../../base/problem.ts';
import { setPassword, setTotp } from '../../members/member-store.ts';
import { checkPassword, SHORTEST_PASSWORD } from '../../members/password.ts';
import { closeSession, sessionsOf } from '../../members/session-store.ts';
import { signInsOf, TOTP_PURPOSE } from '../../members/sign-in.ts';
import { base32, otpauthUrl, stepOfCode, TOTP_SECRET_BYTES } from '../../members/totp.ts';
import type { DashboardDeps } from '../deps.ts';
import { get, move, post, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/profile';
/** What the secret is sealed for while it travels through the form that switches it on. */
const OFFER_PURPOSE = 'second factor offered to ';

export function profilePages(deps: DashboardDeps): Page[] {
  return [
    get(WHERE, (visit) => show(deps, visit, null)),
    post(`${WHERE}/password`, (visit) => withFault(deps, visit, newPassword)),
    get(`${WHERE}/second-factor`, (visit) => offer(deps, visit, null)),
    post(`${WHERE}/second-factor`, (visit) => switchOn(deps, visit)),
    post(`${WHERE}/second-factor/off`, (visit) => withFault(deps, visit, switchOff)),
    post(`${WHERE}/sessions/:id/end`, async ({ member, params }) => {
      await closeSession(deps, member.id, params['id'] ?? '');
      return move(WHERE, 'That session is over.');
    }),
  ];
}

async function show(deps: DashboardDeps, { member, session }: Visit, fault: Problem | null): Promise<Shown> {
  const [sessions, signIns] = await Promise.all([sessionsOf(deps, member.id), signInsOf(deps, member.email_key)]);
  const data = {
    fault,
    email: member.email,
    hasSecondFactor: member.totp_sealed !== null,
    sessions: sessions.map(({ id, created_at, seen_at, ip, user_agent }) => ({ id, created_at, seen_at, ip, user_agent, isThis: id === session.id })),
    signIns: signIns.map(({ at, ip, user_agent, result }) => ({ at, ip, user_agent, result })),
    shortest: SHORTEST_PASSWORD,
  }; // prettier-ignore
  return view('profile', 'Your login', data, fault?.status ?? 200);
}

/** The page again with what was wrong. */
async function withFault(
  deps: DashboardDeps,
  visit: Visit,
  act: (deps: DashboardDeps, visit: Visit) => Promise<Shown>,
): Promise<Shown> {
  try {
    return await act(deps, visit);
  } catch (error) {
    if (error instanceof Problem) return show(deps, visit, error);
    throw error;
  }
}

/** Asked for again before the login itself is changed: a browser left open is not its owner. */
async function provePassword({ passwords }: DashboardDeps, { member, form }: Visit): Promise<void> {
  if (await passwords.matches(form.get('password_now') ?? '', member.password_hash)) return;
  throw new Problem('invalid_field', 'the password you have now is another one', { field: 'password_now' });
}

async function newPassword(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const { form, member, session } = visit;
  const password = form.get('password') ?? '';
  checkPassword(password);
  if (password !== form.get('password_again'))
    throw new Problem('invalid_field', 'the two passwords are not the same', { field: 'password_again' });
  await provePassword(deps, visit);
  await setPassword(deps, member.id, { hash: await deps.passwords.hash(password), keep: session.id });
  return move(WHERE, 'Your password is changed, and all other sessions are over.');
}

function offer({ keyring }: DashboardDeps, { member, form }: Visit, fault: string | null): Shown {
  if (member.totp_sealed !== null) return move(WHERE, 'The second factor is on already.');
  const purpose = OFFER_PURPOSE + member.id;
  const secret = fault === null ? randomBytes(TOTP_SECRET_BYTES) : keyring.open(purpose, form.get('offer') ?? '');
  const data = {
    offer: keyring.seal(purpose, secret),
    secret: base32(secret).replaceAll(/(.{4})(?=.)/g, '$1 '),
    link: otpauthUrl(secret, member.email, 'Posthorn'),
    fault,
  };
  return view('second-factor', 'Second factor', data, fault === null ? 200 : 400);
}

/** On only once a code has shown that the app has the secret: nobody locks themselves out. */
async function switchOn(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const { keyring } = deps;
  const { member, form, now } = visit;
  if (member.totp_sealed !== null) return move(WHERE, 'The second factor is on already.');
  const secret = opened(deps, member.id, form.get('offer') ?? '');
  const step = stepOfCode(secret, form.get('code') ?? '', now, null);
  if (step === null) return offer(deps, visit, 'This code is wrong. Is the clock of your device right?');
  await setTotp(deps, member.id, { sealed: keyring.seal(TOTP_PURPOSE, secret), step });
  return move(WHERE, 'The second factor is on: from now on signing in asks for a code.');
}

function opened({ keyring }: DashboardDeps, memberId: string, sealed: string): Buffer {
  try {
    return keyring.open(OFFER_PURPOSE + memberId, sealed);
  } catch {
    throw new Problem('invalid_request', 'This form is not one of ours. Open the page again.');
  }
}

async function switchOff(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  await provePassword(deps, visit);
  await setTotp(deps, visit.member.id, null);
  return move(WHERE, 'The second factor is off.');
}
