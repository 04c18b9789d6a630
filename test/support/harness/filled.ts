/** An application with something of everything in it, for tests that walk all pages of the dashboard. */
import assert from 'node:assert/strict';
import { startTestApp, zonesFor, type TestApp } from './app.ts';
import { startMailServer, type FakeMailServer } from '../fakes/fake-mail-server.ts';
import { dsn, sendByHand } from './mail-back.ts';

const NAUGHTY = `<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>"'{{7*7}}`;
const LONG = `${'long-local-part-'.repeat(3)}x@${'very-long-label.'.repeat(8)}example.net`;
const FROM = 'hi@simulator.posthorn.test';

const BACK = 'back@dest.test';

/**
 * Such an application, and the addresses of all pages. Its mail server defers everything but the mail to `BACK`, which comes back
 * later; both are the caller's to end.
 */
export async function startFilledApp(): Promise<{ server: FakeMailServer; app: TestApp; pages: string[] }> {
  const server = await startMailServer({
    script: { rcpt: (line) => (line.includes(BACK) ? '250 2.1.5 ok' : '450 4.2.0 busy') },
  });
  const app = await startTestApp({
    mailPort: server.port,
    zones: zonesFor('dest.test', LONG.slice(LONG.indexOf('@') + 1)),
    settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } },
  });
  const pages = await filled(app);
  return { server, app, pages: [...pages, await reportOf(app, server)] };
}

/** Returns the page of a bounce that came later. */
async function reportOf(app: TestApp, server: FakeMailServer): Promise<string> {
  const { id } = await app.send({ to: BACK });
  await app.follow().of(id, 'delivered');
  const returnPath = server.sessions.flatMap(({ mails }) => mails).at(-1)?.from ?? '';
  await sendByHand(app.app.ports.mx ?? 0, '', returnPath, dsn(BACK));
  await app.follow().of(id, 'bounced');
  // The event is written before the report is marked as read.
  for (;;) {
    const { body } = await app.get<{ data: { id: string }[] }>(`/v1/messages/${id}/reports`);
    const [report] = body.data;
    if (report !== undefined) return `/messages/${id}/reports/${report.id}/read`;
  }
}

/** Mail in each state, and one of everything; names that would like to be scripts. Gives the addresses of all pages. */
export async function filled(app: TestApp): Promise<string[]> {
  const simulated = (to: string, more: object = {}) =>
    app.send({ from: FROM, to: `${to}@simulator.posthorn.test`, subject: `Mail ${to}`, tags: ['welcome'], ...more });
  const { watch } = await app.operator.call('queue.watch', { lane: 'mx.dest.test' });
  const { id: message } = await simulated('delivered', {
    subject: NAUGHTY,
    html: `<p>Hi</p>${NAUGHTY}`,
    metadata: { order: NAUGHTY },
    tags: ['welcome', 'x'.repeat(120)],
  });
  for (const to of ['bounced', 'complained', 'deferred', 'opened', 'clicked']) await simulated(to);
  await app.send({ to: LONG, subject: 'w'.repeat(300) });
  await app.send();
  await app.send({ send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
  await app.settled();
  const post = async (where: string, body: object): Promise<string> => {
    const { status, body: made, text } = await app.request<{ id: string }>('POST', where, body);
    assert.ok(status < 300, text);
    return made.id;
  };
  const template = await post('/v1/templates', {
    name: NAUGHTY,
    subject: 'Hello {{name}}',
    html: `<p>{{name}}</p>${'<b>'.repeat(3)}`,
    publish: true,
  });
  const webhook = await post('/v1/webhooks', { url: 'http://127.0.0.1:1025/hook', description: NAUGHTY });
  await post('/v1/suppressions', { email: 'gone@example.net', note: NAUGHTY });
  const domain = await post('/v1/domains', { name: `${'a'.repeat(40)}.${'b'.repeat(40)}.example` });
  await post('/v1/streams', { slug: 'newsletter', name: NAUGHTY.slice(0, 60), type: 'broadcast' });
  const { data: acts } = await app.operator.call('audit.list', {});
  const act = acts[0]?.id;
  assert.ok(act !== undefined);
  return [
    '/',
    '/search',
    '/search?q=welcome',
    `/developer/actions/${act}`,
    '/developer/log?of=unknown',
    '/developer/actions?of=server',
    '/messages?status=bounced',
    '/messages?q=nobody%40example.net',
    '/welcome',
    '/messages',
    `/messages/${message}`,
    `/messages/${message}?part=source`,
    `/messages/${message}?part=headers`,
    `/messages/${message}?part=text`,
    '/events',
    '/stats?test=true',
    '/stats',
    '/reputation',
    '/templates',
    '/templates/new',
    `/templates/${template}`,
    `/templates/${template}/versions`,
    '/suppressions',
    '/domains',
    `/domains/${domain}`,
    '/streams',
    '/webhooks',
    '/webhooks/new',
    `/webhooks/${webhook}`,
    '/developer/keys',
    '/developer/keys/new',
    `/developer/keys/${app.keyId}`,
    '/developer/log',
    '/developer/actions',
    '/developer/api',
    '/settings',
    '/settings/changelog',
    '/settings/sources',
    '/settings/nodes',
    '/nothing-here',
    '/profile',
    '/profile/second-factor',
    '/queue',
    '/queue?domain=dest.test',
    '/queue/lane?name=mx.dest.test',
    '/queue/watch',
    '/queue/watch?lane=mx.dest.test&watch=99',
    `/queue/watch?lane=mx.dest.test&watch=${String(watch)}`,
    `/messages/${message}/request`,
    '/doctor?run',
    '/accounts',
    '/team',
    '/messages/nothing',
    '/messages?sort=created_at',
    '/queue?domains=domain',
    '/reputation?sort=-bounced',
    '/setup/nothing',
  ];
}
