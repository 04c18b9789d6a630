/** The member's own login: password, second factor, recovery codes, open sessions, last sign-ins. */
import { randomBytes } from 'node:crypto';
import { Problem, invalid } from '../../base/problem.ts';
import { keysMadeBy, toKeyRecord } from '../../keys/key-store.ts';
import { changeLogin, needsSecondFactor, type LoginChanges } from '../../members/member-store.ts';
import { SHORTEST_PASSWORD } from '../../members/password.ts';
import { makeRecoveryCodes, recoveryCodesOf } from '../../members/recovery-codes.ts';
import { closeSession, sessionsOf } from '../../members/session-store.ts';
import { signInsOf, TOTP_PURPOSE } from '../../members/sign-in.ts';
import { base32, otpauthUrl, stepOfCode, TOTP_SECRET_BYTES } from '../../members/totp.ts';
import { actRows } from '../act.ts';
import { openedOf } from '../forms.ts';
import { get, move, once, post, view, type Page, type Shown, type Visit } from '../page.ts';
import { newPasswordIn, provenPassword } from './sign-in.ts';

const WHERE = '/profile';
/** Context under which the secret is sealed in the form that switches the second factor on. */
const OFFER_PURPOSE = 'second factor offered to ';

export const profilePages: readonly Page[] = [
  get(WHERE, (visit) => show(visit, null)),
  post(`${WHERE}/password`, newPassword, { again: show }),
  get(`${WHERE}/second-factor`, (visit) => offer(visit, null)),
  post(`${WHERE}/second-factor`, switchOn, { again: offer }),
  post(`${WHERE}/second-factor/off`, switchOff, { again: show }),
  post(`${WHERE}/recovery-codes`, newRecoveryCodes, { again: show }),
  post(`${WHERE}/sessions/:id/end`, async (visit) => {
    const { server, member, params, account } = visit;
    const rows = () => actRows(visit, member.email, 'profile.session.end', account.id);
    await closeSession(server, member.id, params['id'] ?? '', rows);
    return move(WHERE, 'That session has ended.');
  }),
];

async function show({ server, member, session, account, accounts, actor }: Visit, fault: Problem | null) {
  const [sessions, signIns, codes, keys] = await Promise.all([
    sessionsOf(server, member.id),
    signInsOf(server, member.email_key),
    recoveryCodesOf(server, member.id),
    keysMadeBy(server, actor),
  ]);
  return view('profile', 'Your login', {
    fault,
    email: member.email,
    hasSecondFactor: member.totp_sealed !== null,
    isRequired: needsSecondFactor(server.config.dashboard, member),
    codes,
    isLow: (codes?.left ?? 0) < 3,
    sessions: sessions.map((one) => ({ ...one, isThis: one.id === session.id })),
    signIns,
    keys: keys.map((key) => ({
      ...toKeyRecord(key, server.clock.now()),
      accountName: accounts.find(({ id }) => id === key.account_id)?.name,
      isHere: key.account_id === account.id,
    })),
    shortest: SHORTEST_PASSWORD,
  });
}

/** Changes the member's login, which ends all other sessions. */
const change = (visit: Visit, name: Parameters<typeof actRows>[2], changes: LoginChanges): Promise<void> =>
  changeLogin(visit.server, visit.member.id, { ...changes, keep: visit.session.id }, () =>
    actRows(visit, visit.member.email, name, visit.account.id),
  );

async function newPassword(visit: Visit): Promise<Shown> {
  const { server, member } = visit;
  const password = newPasswordIn(visit, member.email);
  await provenPassword(visit);
  await change(visit, 'profile.password', { hash: await server.passwords.hash(password) });
  return move(
    WHERE,
    'Your password is changed, and all other sessions have ended. It ends no API key: those that you made lately are below.',
  );
}

async function offer(visit: Visit, fault: Problem | null): Promise<Shown> {
  const { server, member } = visit;
  if (member.totp_sealed !== null) return move(WHERE, 'The second factor is already on.');
  const secret = fault === null ? randomBytes(TOTP_SECRET_BYTES) : offeredSecret(visit);
  // Imported where it is used: few pages need it.
  const { renderSVG } = await import('uqr');
  const link = otpauthUrl(secret, member.email, 'Posthorn');
  return view('second-factor', 'Second factor', {
    isRequired: needsSecondFactor(server.config.dashboard, member),
    offer: server.keyring.seal(OFFER_PURPOSE + member.id, secret),
    secret: base32(secret).replaceAll(/(.{4})(?=.)/g, '$1 '),
    link,
    qr: `data:image/svg+xml,${encodeURIComponent(renderSVG(link, { border: 4 }))}`,
    fault,
  });
}

/** Switches it on once a code has proved that the app has the secret, so that no member is locked out. */
async function switchOn(visit: Visit): Promise<Shown> {
  const { server, member, form, now } = visit;
  if (member.totp_sealed !== null) return move(WHERE, 'The second factor is already on.');
  const secret = offeredSecret(visit);
  await provenPassword(visit);
  const step = stepOfCode(secret, form.get('code') ?? '', now, null);
  if (step === null) throw invalid('code', 'This code is wrong. Check the clock of your device.');
  const recoveryCodes = makeRecoveryCodes();
  const totp = { sealed: server.keyring.seal(TOTP_PURPOSE, secret), step };
  await change(visit, 'profile.second-factor.on', { totp, recoveryCodes });
  return codesPage(visit, recoveryCodes, { isNew: true });
}

function offeredSecret({ server, member, form }: Visit): Buffer {
  const secret = openedOf(server.keyring, OFFER_PURPOSE + member.id, form.get('offer') ?? '');
  if (secret === null)
    throw new Problem('invalid_request', 'This form did not come from this page. Open the page again.');
  return secret;
}

async function switchOff(visit: Visit): Promise<Shown> {
  await provenPassword(visit);
  await change(visit, 'profile.second-factor.off', { totp: null, recoveryCodes: [] });
  return move(WHERE, 'The second factor is off, and all other sessions have ended.');
}

async function newRecoveryCodes(visit: Visit): Promise<Shown> {
  if (visit.member.totp_sealed === null)
    return move(WHERE, 'Recovery codes belong to a second factor: switch it on first.');
  await provenPassword(visit);
  const recoveryCodes = makeRecoveryCodes();
  await change(visit, 'profile.recovery-codes', { recoveryCodes });
  return codesPage(visit, recoveryCodes, { isNew: false });
}

/** Shows the codes in the answer to the form itself, since only their hashes are stored. */
function codesPage({ server, member, now }: Visit, codes: readonly string[], { isNew }: { isNew: boolean }): Shown {
  const { hostname: host } = new URL(server.config.http.publicUrl);
  const { email } = member;
  const lines = [`Recovery codes of ${email} at ${host}`, new Date(now).toISOString(), '', ...codes, ''];
  const file = `data:text/plain;charset=utf-8,${encodeURIComponent(lines.join('\n'))}`;
  const data = { codes, all: codes.join('\n'), file, host, email, isNew, madeAt: now };
  return once('recovery-codes', 'Recovery codes', data, WHERE);
}
