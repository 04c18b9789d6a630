/** The member's own login: password, second factor, recovery codes, open sessions, last sign-ins. */
import { randomBytes } from 'node:crypto';
import { Problem } from '../../base/problem.ts';
import { keysMadeBy, toKeyRecord } from '../../keys/key-store.ts';
import { changeLogin, needsSecondFactor } from '../../members/member-store.ts';
import { SHORTEST_PASSWORD } from '../../members/password.ts';
import { makeRecoveryCodes, recoveryCodesOf } from '../../members/recovery-codes.ts';
import { closeSession, sessionsOf } from '../../members/session-store.ts';
import { signInsOf, TOTP_PURPOSE } from '../../members/sign-in.ts';
import { base32, otpauthUrl, stepOfCode, TOTP_SECRET_BYTES } from '../../members/totp.ts';
import type { Rows } from '../../storage/rows.ts';
import type { MemberRow } from '../../storage/tables.ts';
import { actRows, type DashboardAct } from '../act.ts';
import type { DashboardDeps } from '../deps.ts';
import { get, move, once, post, view, withFault, type Page, type Shown, type Visit } from '../page.ts';
import { newPasswordIn, provenPassword } from './proof.ts';

const WHERE = '/profile';
/** Context under which the secret is sealed in the form that switches the second factor on. */
const OFFER_PURPOSE = 'second factor offered to ';

export function profilePages(deps: DashboardDeps): Page[] {
  const onPage = (act: typeof newPassword, again = show) =>
    withFault<Visit>(
      (visit) => act(deps, visit),
      (visit, fault) => again(deps, visit, fault),
    );
  return [
    get(WHERE, (visit) => show(deps, visit, null)),
    post(`${WHERE}/password`, onPage(newPassword)),
    get(`${WHERE}/second-factor`, (visit) => offer(deps, visit, null)),
    post(`${WHERE}/second-factor`, onPage(switchOn, offer)),
    post(`${WHERE}/second-factor/off`, onPage(switchOff)),
    post(`${WHERE}/recovery-codes`, onPage(newRecoveryCodes)),
    post(`${WHERE}/sessions/:id/end`, async (visit) => {
      const { member, params } = visit;
      await closeSession(deps, member.id, params['id'] ?? '', acted(deps, visit, 'profile.session.end'));
      return move(WHERE, 'That session has ended.');
    }),
  ];
}

async function show(
  deps: DashboardDeps,
  { member, session, account, accounts, actor }: Visit,
  fault: Problem | null,
): Promise<Shown> {
  const [sessions, signIns, codes, keys] = await Promise.all([
    sessionsOf(deps, member.id),
    signInsOf(deps, member.email_key),
    recoveryCodesOf(deps, member.id),
    keysMadeBy(deps, actor),
  ]);
  const data = {
    fault,
    email: member.email,
    hasSecondFactor: member.totp_sealed !== null,
    isRequired: needsSecondFactor(deps.config.dashboard, member),
    codes,
    isLow: (codes?.left ?? 0) < 3,
    sessions: sessions.map((one) => ({ ...one, isThis: one.id === session.id })),
    signIns,
    keys: keys.map((key) => ({
      ...toKeyRecord(key, deps.clock.now()),
      accountName: accounts.find(({ id }) => id === key.account_id)?.name,
      isHere: key.account_id === account.id,
    })),
    shortest: SHORTEST_PASSWORD,
  };
  return view('profile', 'Your login', data);
}

/** Writes the audit line of the account. */
const acted =
  (deps: DashboardDeps, { member, ip, userAgent, account }: Visit, endpoint: DashboardAct) =>
  (): Rows =>
    actRows(deps, { email: member.email, ip, userAgent }, endpoint, account.id);

async function newPassword(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const { form, member, session } = visit;
  const password = newPasswordIn(form, member.email, deps.config);
  await provenPassword(deps, visit);
  const hash = await deps.passwords.hash(password);
  await changeLogin(deps, member.id, { hash, keep: session.id }, acted(deps, visit, 'profile.password'));
  return move(
    WHERE,
    'Your password is changed, and all other sessions have ended. It ends no API key: those that you made lately are below.',
  );
}

async function offer(deps: DashboardDeps, { member, form }: Visit, fault: Problem | null): Promise<Shown> {
  if (member.totp_sealed !== null) return move(WHERE, 'The second factor is already on.');
  const secret = fault === null ? randomBytes(TOTP_SECRET_BYTES) : offeredSecret(deps, member, form);
  // Imported where it is used: few pages need it.
  const { renderSVG } = await import('uqr');
  const link = otpauthUrl(secret, member.email, 'Posthorn');
  const data = {
    isRequired: needsSecondFactor(deps.config.dashboard, member),
    offer: deps.keyring.seal(OFFER_PURPOSE + member.id, secret),
    secret: base32(secret).replaceAll(/(.{4})(?=.)/g, '$1 '),
    link,
    qr: `data:image/svg+xml,${encodeURIComponent(renderSVG(link, { border: 4 }))}`,
    fault,
  };
  return view('second-factor', 'Second factor', data);
}

/** Switches it on once a code has proved that the app has the secret, so that no member is locked out. */
async function switchOn(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const { keyring } = deps;
  const { member, form, now, session } = visit;
  if (member.totp_sealed !== null) return move(WHERE, 'The second factor is already on.');
  const secret = offeredSecret(deps, member, form);
  await provenPassword(deps, visit);
  const step = stepOfCode(secret, form.get('code') ?? '', now, null);
  if (step === null)
    throw new Problem('invalid_field', 'This code is wrong. Check the clock of your device.', { field: 'code' });
  const recoveryCodes = makeRecoveryCodes();
  const totp = { sealed: keyring.seal(TOTP_PURPOSE, secret), step };
  const changes = { totp, recoveryCodes, keep: session.id };
  await changeLogin(deps, member.id, changes, acted(deps, visit, 'profile.second-factor.on'));
  return codesPage(deps, visit, recoveryCodes, { isNew: true });
}

function offeredSecret({ keyring }: DashboardDeps, { id }: MemberRow, form: URLSearchParams): Buffer {
  try {
    return keyring.open(OFFER_PURPOSE + id, form.get('offer') ?? '');
  } catch {
    throw new Problem('invalid_request', 'This form did not come from this page. Open the page again.');
  }
}

async function switchOff(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const { member, session } = visit;
  await provenPassword(deps, visit);
  const changes = { totp: null, recoveryCodes: [], keep: session.id };
  await changeLogin(deps, member.id, changes, acted(deps, visit, 'profile.second-factor.off'));
  return move(WHERE, 'The second factor is off, and all other sessions have ended.');
}

async function newRecoveryCodes(deps: DashboardDeps, visit: Visit): Promise<Shown> {
  const { member, session } = visit;
  if (member.totp_sealed === null) return move(WHERE, 'Recovery codes belong to a second factor: switch it on first.');
  await provenPassword(deps, visit);
  const recoveryCodes = makeRecoveryCodes();
  const changes = { recoveryCodes, keep: session.id };
  await changeLogin(deps, member.id, changes, acted(deps, visit, 'profile.recovery-codes'));
  return codesPage(deps, visit, recoveryCodes, { isNew: false });
}

/** Shows the codes in the answer to the form itself, since only their hashes are stored. */
function codesPage(
  { config }: DashboardDeps,
  { member, now }: Visit,
  codes: readonly string[],
  { isNew }: { isNew: boolean },
): Shown {
  const { hostname: host } = new URL(config.http.publicUrl);
  const lines = [`Recovery codes of ${member.email} at ${host}`, new Date(now).toISOString(), '', ...codes, ''];
  const file = `data:text/plain;charset=utf-8,${encodeURIComponent(lines.join('\n'))}`;
  return once(
    'recovery-codes',
    'Recovery codes',
    {
      codes,
      all: codes.join('\n'),
      file,
      host,
      email: member.email,
      isNew,
      madeAt: now,
    },
    WHERE,
  );
}
