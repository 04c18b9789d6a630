/** Set-up links for the first administrator, a new member, a forgotten password; and the first steps. */
import { rmSync } from 'node:fs';
import { escapeHtml } from '../../base/html.ts';
import type { Problem } from '../../base/problem.ts';
import { newMember } from '../../members/member-store.ts';
import { SHORTEST_PASSWORD } from '../../members/password.ts';
import { findSetUpLink, spendSetUpLink } from '../../members/setup-link.ts';
import { letIn } from '../../members/sign-in.ts';
import { setUpFile } from '../../operator/team/team.ts';
import { get, move, openGet, openPost, post, view, type Guest, type Page, type Shown, type Visit } from '../page.ts';
import { newPasswordIn } from './sign-in.ts';
import { samplesOf } from '../samples.ts';

export const setUpPages: readonly Page[] = [
  openGet('/setup/:token', (guest) => form(guest, null)),
  openPost('/setup/:token', setUp, { again: form, knows: async (guest) => (await linkOf(guest)) !== null }),
  get('/welcome', welcome, { scope: 'key' }),
  post('/welcome/send', sendFirst, { scope: 'key' }),
];

const linkOf = ({ server, params }: Guest) => findSetUpLink(server, params['token'] ?? '');

const expired = (): Shown => view('setup-over', 'This link has expired', {}, 404);

async function form(guest: Guest, fault: Problem | null): Promise<Shown> {
  const link = await linkOf(guest);
  if (link === null) return expired();
  const data = {
    member: null,
    email: link.member?.email ?? guest.form.get('email'),
    isFirst: link.member === null,
    fault,
    shortest: SHORTEST_PASSWORD,
  };
  return view('setup', link.member === null ? 'Set up Posthorn' : 'Set your password', data);
}

async function setUp(guest: Guest): Promise<Shown> {
  const { server, params } = guest;
  const link = await linkOf(guest);
  if (link === null) return expired();
  const { member: existing } = link;
  const email = existing?.email ?? guest.form.get('email') ?? '';
  const password = newPasswordIn(guest, email);
  const make =
    existing === null
      ? newMember(server, { email, role: 'administrator', passwordHash: null, createdBy: 'operator' })
      : null;
  const passwordHash = await server.passwords.hash(password);
  const member = await spendSetUpLink(server, params['token'] ?? '', { passwordHash, make });
  if (make !== null) rmSync(setUpFile(server.config.dataDir), { force: true });
  const session = await letIn(server, member, guest, { result: 'set_up' });
  if (session.kind === 'refused') return move('/login', 'Your password was changed again since: sign in with it.');
  const to = make === null ? '/' : '/welcome';
  const cookies = [
    { name: 'session', value: session.token },
    { name: 'device', value: session.device },
  ] as const;
  return { kind: 'move', to, say: 'You are signed in.', cookies };
}

/** Shows the four first steps, with those that are done marked. */
async function welcome(visit: Visit): Promise<Shown> {
  const { config, version } = visit.server;
  const [domains, keys, messages] = await Promise.all([
    visit.ask('listDomains', { query: { status: 'any', limit: '5' } }),
    visit.ask('listKeys', { query: { limit: '100' } }),
    visit.ask('listMessages', { query: { limit: '1' } }),
  ]);
  const { simulator, smtp } = config;
  const verified = domains.data.find(({ status }) => status === 'verified')?.name;
  const { host, port } = smtp.submission;
  const samples = samplesOf({
    url: config.http.publicUrl,
    simulator: simulator.domain,
    key: null,
    version,
    smtp: `${host === '127.0.0.1' ? host : smtp.hostname}:${String(port)}`,
    ...(verified === undefined ? {} : { from: `hello@${verified}`, to: visit.member.email }),
  });
  return view('welcome', 'First steps', {
    domains: domains.data,
    // The test key that the first start prints in the terminal is not counted.
    hasKey: keys.data.some(
      ({ created_by: by, mode, revoked_at: end }) => end === null && (mode === 'live' || by !== 'operator'),
    ),
    hasSent: messages.data.length > 0,
    simulator: simulator.domain,
    me: verified === undefined ? null : visit.member.email,
    ways: (['curl', 'TypeScript', 'Python', 'SMTP'] as const).map((label, place) => ({
      label,
      text: samples[label],
      on: place === 0,
    })),
  });
}

/** Sends a first mail: to the member from a verified domain, or to the simulator, which needs none and sends nothing out. */
async function sendFirst(visit: Visit): Promise<Shown> {
  const { domain } = visit.server.config.simulator;
  const wanted = visit.form.get('outcome') ?? '';
  const { data } = await visit.ask('listDomains', { query: { status: 'verified', limit: '1' } });
  const own = wanted === 'me' ? data[0]?.name : undefined;
  const outcome = ['delivered', 'bounced', 'deferred', 'complained', 'opened', 'clicked'].find((one) => one === wanted);
  const { id } = await visit.ask('sendMessage', {
    body: {
      from: `Posthorn <hello@${own ?? domain}>`,
      to: own === undefined ? `${outcome ?? 'delivered'}@${domain}` : visit.member.email,
      subject: 'First mail',
      html: `<h1>It works</h1><p>${
        own === undefined
          ? 'This mail went to the simulator: it did everything that real mail does, but did not leave this server.'
          : `This mail came from ${escapeHtml(own)}, by your own server.`
      }</p>`,
    },
  });
  return move(`/messages/${id}`, 'Sent. Its outcome appears below by itself.');
}
