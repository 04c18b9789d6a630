/** Set-up links for the first administrator, a new member, a forgotten password; and the first steps. */
import { rmSync } from 'node:fs';
import type { Problem } from '../../base/problem.ts';
import { newMember } from '../../members/member-store.ts';
import { SHORTEST_PASSWORD } from '../../members/password.ts';
import { findSetUpLink, spendSetUpLink } from '../../members/setup-link.ts';
import { letIn } from '../../members/sign-in.ts';
import { setUpFile } from '../../operator/team/admin.ts';
import type { DashboardDeps } from '../deps.ts';
import {
  get,
  move,
  needs,
  openGet,
  openPost,
  post,
  view,
  withFault,
  type Guest,
  type Page,
  type Shown,
  type Visit,
} from '../page.ts';
import { newPasswordIn } from './proof.ts';
import { sampleCommands } from '../samples.ts';

export function setUpPages(deps: DashboardDeps): Page[] {
  return [
    openGet('/setup/:token', (guest) => form(deps, guest, null)),
    openPost(
      '/setup/:token',
      withFault(
        (guest) => setUp(deps, guest),
        (guest, fault) => form(deps, guest, fault),
      ),
      async ({ params }) => (await findSetUpLink(deps, params['token'] ?? '')) !== null,
    ),
    needs(
      'key',
      get('/welcome', (visit) => welcome(deps, visit)),
    ),
    needs(
      'key',
      post('/welcome/send', (visit) => sendFirst(deps, visit)),
    ),
  ];
}

const expired = (): Shown => view('setup-over', 'This link has expired', {}, 404);

async function form(deps: DashboardDeps, { params, form: entered }: Guest, fault: Problem | null): Promise<Shown> {
  const link = await findSetUpLink(deps, params['token'] ?? '');
  if (link === null) return expired();
  const data = {
    member: null,
    email: link.member?.email ?? entered.get('email'),
    isFirst: link.member === null,
    fault: fault?.message ?? null,
    field: fault?.field ?? null,
    shortest: SHORTEST_PASSWORD,
  };
  return view(
    'setup',
    link.member === null ? 'Set up Posthorn' : 'Set your password',
    data,
    fault === null ? 200 : 400,
  );
}

async function setUp(deps: DashboardDeps, guest: Guest): Promise<Shown> {
  const token = guest.params['token'] ?? '';
  const link = await findSetUpLink(deps, token);
  if (link === null) return expired();
  const { member: existing } = link;
  const email = existing?.email ?? guest.form.get('email') ?? '';
  const password = newPasswordIn(guest.form, email, deps.config);
  const make =
    existing === null
      ? newMember(deps, { email, role: 'administrator', passwordHash: null, createdBy: 'operator' })
      : null;
  const passwordHash = await deps.passwords.hash(password);
  const member = await spendSetUpLink(deps, token, { passwordHash, make });
  if (make !== null) rmSync(setUpFile(deps.config.dataDir), { force: true });
  const session = await letIn(deps, member, guest, { result: 'set_up' });
  if (session.kind === 'refused') return move('/login', 'Your password was changed again since: sign in with it.');
  const to = make === null ? '/' : '/welcome';
  const cookies = [
    { name: 'session', value: session.token },
    { name: 'device', value: session.device },
  ] as const;
  return { kind: 'move', to, say: 'You are signed in.', cookies };
}

/** Shows the four first steps, with those that are done marked. */
async function welcome({ config }: DashboardDeps, visit: Visit): Promise<Shown> {
  const [domains, keys, messages] = await Promise.all([
    visit.ask('listDomains', { query: { status: 'any', limit: '5' } }),
    visit.ask('listKeys', { query: { limit: '100' } }),
    visit.ask('listMessages', { query: { limit: '1' } }),
  ]);
  const verified = domains.data.find(({ status }) => status === 'verified')?.name;
  return view('welcome', 'First steps', {
    domains: domains.data,
    // The test key that the first start prints in the terminal is not counted.
    hasKey: keys.data.some(
      ({ created_by: by, mode, revoked_at: end }) => end === null && (mode === 'live' || by !== 'operator'),
    ),
    hasSent: messages.data.length > 0,
    simulator: config.simulator.domain,
    samples: sampleCommands({
      url: config.http.publicUrl,
      simulator: config.simulator.domain,
      key: null,
      ...(verified === undefined ? {} : { from: `hello@${verified}` }),
    }),
  });
}

/** Sends a mail to the simulator, which needs no domain and sends nothing out. */
async function sendFirst({ config }: DashboardDeps, visit: Visit): Promise<Shown> {
  const { domain } = config.simulator;
  const wanted = visit.form.get('outcome') ?? '';
  const outcome = ['delivered', 'bounced', 'deferred', 'complained', 'opened', 'clicked'].find((one) => one === wanted);
  const { id } = await visit.ask('sendMessage', {
    body: {
      from: `Posthorn <hello@${domain}>`,
      to: `${outcome ?? 'delivered'}@${domain}`,
      subject: 'First mail',
      html: '<h1>It works</h1><p>This mail went to the simulator: it did everything that real mail does, but did not leave this server.</p>',
    },
  });
  return move(`/messages/${id}`, 'Sent. Its outcome appears below by itself.');
}
