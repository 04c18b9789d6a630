/** Templates by API: kept in versions, tried, and sent, alone and in bulk. */
import assert from 'node:assert/strict';
import { simpleParser } from 'mailparser';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

interface Template {
  object: string;
  id: string;
  alias: string | null;
  name: string;
  subject: string | null;
  html: string | null;
  text: string | null;
  version: number;
  published_version: number | null;
  status: string;
  variables: { name: string; type: string; required: boolean; default: unknown }[];
  error: { code: string; field: string | null; message: string };
}
interface Part {
  rendered: string | null;
  errors: { code: string; line: number; column: number; message: string }[];
}
interface Rendered {
  object: string;
  valid: boolean;
  subject: Part | null;
  html: Part | null;
  text: Part | null;
  variables: string[];
}
interface Batch {
  accepted: number;
  rejected: number;
  data: { index: number; id: string | null; status: string; error: { code: string; field: string } | null }[];
  error: { code: string; field: string | null };
}

const WELCOME = {
  alias: 'welcome',
  name: 'Welcome',
  from: 'Acme <hi@acme.test>',
  reply_to: 'answers@acme.test',
  subject: 'Hello {{ name }}',
  html: '<p>Hello {{ name }}{% if plan == "pro" %}, and thank you{% endif %}.</p>{{#each items}}<i>{{t}}</i>{{/each}}',
  variables: [
    { name: 'name', required: true },
    { name: 'plan', default: 'free' },
  ],
};

describe('journey: templates', () => {
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const create = (body: object = WELCOME) => app.request<Template>('POST', '/v1/templates', body);
  const read = (id: string) => app.get<Template>(`/v1/templates/${id}`);
  const patch = (id: string, body: object) => app.request<Template>('PATCH', `/v1/templates/${id}`, body);
  const send = (body: object) =>
    app.request<{ id: string; error: { code: string; field: string; message: string } }>('POST', '/v1/messages', body);
  const bulk = (body: object) => app.request<Batch>('POST', '/v1/messages', body);
  const received = async (id: string) => {
    await app.follow().of(id, 'delivered');
    const mail = server.sessions.flatMap(({ mails }) => mails).find(({ data }) => data.includes(`X-Message-Id: ${id}`));
    assert.ok(mail);
    return simpleParser(mail.data);
  };

  it('keeps what it is given, published at once, by id and by alias', async () => {
    const made = await create();
    assert.equal(made.status, 201, made.text);
    const { body } = made;
    assert.match(body.id, /^tpl_[0-9a-z]{26}$/);
    assert.equal(made.headers.get('location'), `/v1/templates/${body.id}`);
    assert.deepEqual([body.object, body.version, body.published_version, body.status], ['template', 1, 1, 'published']);
    assert.deepEqual(body.variables, [
      { name: 'name', type: 'string', required: true, default: null },
      { name: 'plan', type: 'string', required: false, default: 'free' },
    ]);
    assert.deepEqual((await read(body.id)).body, body);
    assert.deepEqual((await read('welcome')).body, body);
    assert.equal((await create()).body.error.code, 'already_exists');
    const { body: page } = await app.get<{ data: Template[] }>('/v1/templates');
    assert.deepEqual(page.data, [{ ...body, html: null, text: null }]);
    assert.equal((await read('nowhere')).status, 404);
  });

  it('tells a fault with its place', async () => {
    const rows = [
      [{ html: 'a\n{{#if x}}' }, 'template_syntax_error', 'html', /line 2 col 1/],
      [{ text: '{{ x | shout }}' }, 'template_syntax_error', 'text', /'shout' line 1 col 8/],
      [{ html: 'x', subject: '{% if %}' }, 'template_syntax_error', 'subject', /line 1/],
      [{ html: '{{#if x}}'.repeat(33) }, 'template_render_failed', 'html', /deeper than 32 line 1 col 289/],
      [{ html: `{{#if ${'(not '.repeat(40)}x}}` }, 'template_render_failed', 'html', /nested too deep/],
      [{ html: 'x'.repeat(512 * 1024 + 1) }, 'template_render_failed', 'html', /larger than 524288 bytes/],
      [{ text: 'é'.repeat(256 * 1024 + 1) }, 'template_render_failed', 'text', /larger than 524288 bytes/],
      [{ html: 'x'.repeat(3 * 1024 * 1024) }, 'template_render_failed', 'html', /larger than 524288 bytes/],
      [{ subject: 'x' }, 'missing_content', 'html', /content/],
      [{ html: 'x', from: 'nobody' }, 'invalid_sender', 'from', /rule/],
      [{ html: 'x', reply_to: ['a@b.test', 'nobody'] }, 'invalid_address', 'reply_to[1]', /rule/],
      [{ html: 'x', alias: 'No Alias' }, 'invalid_field', 'alias', /characters/],
      [{ html: 'x', locale: 'no locale' }, 'invalid_field', 'locale', /must be a BCP 47 tag such as `de-AT`\.$/],
      [
        { html: 'x', timezone: 'Mars/Olympus' },
        'invalid_field',
        'timezone',
        /must be an IANA name such as `Europe\/Vienna`\.$/,
      ],
      [{ html: 'x', variables: [{ name: 'a' }, { name: 'a' }] }, 'invalid_field', 'variables', /twice/],
      [
        { html: 'x', variables: [{ name: 'a' }, { name: 'qty', type: 'string', default: 1 }] },
        'invalid_field',
        'variables[1].default',
        /`qty` is of type number, not string/,
      ],
      [
        { html: 'x', variables: [{ name: 'list', type: 'object', default: [] }] },
        'invalid_field',
        'variables[0].default',
        /array, not object/,
      ],
      [{ htlm: 'x' }, 'unknown_field', 'htlm', /html/],
    ] as const;
    for (const [body, code, field, message] of rows) {
      const { status, body: answer, text } = await create(body);
      assert.deepEqual([status, answer.error.code, answer.error.field], [400, code, field], text);
      assert.match(answer.error.message, message);
    }
  });

  it('prints the line breaks of a subject as spaces', async () => {
    const variables = { vip: true, name: 'Ana\nB' };
    const rows: [subject: string, rendered: string][] = [
      ['Hello\n{{ name }}\0!', 'Hello Ana B !'],
      ['{%- if vip -%}\n  Dear {{ name }}\n{%- endif -%}\n', 'Dear Ana B'],
      ['{{#if vip}}\nHi{{/if}}', 'Hi'],
      ['{% if vip %}\n{% assign x = 1 %}\n{% endif %}Hi {{ x }}', 'Hi 1'],
      ['{% capture x %}a\nb{% endcapture %}{{ x }}', 'a b'],
      ['{# a comment #}{{!-- one\ntwo --}}Hi', '{# a comment #}Hi'],
    ];
    for (const [n, [subject, rendered]] of rows.entries()) {
      const alias = `lines-${String(n)}`;
      const { status, text } = await create({ alias, from: WELCOME.from, subject, html: 'x' });
      assert.equal(status, 201, text);
      const { body } = await send({ to: 'ana@dest.test', template_id: alias, variables });
      assert.equal((await received(body.id)).subject, rendered, subject);
    }
  });

  it('takes the type of a variable from its default, so that a send can rely on it', async () => {
    const defaults = { qty: 1, on: false, list: ['a'], map: { a: 1 }, text: '', none: null };
    const variables = Object.entries(defaults).map(([name, value]) => ({ name, default: value }));
    const html = '{{ qty }}{{ on }}{{ list }}{{ map.a }}{{ text }}{{ none }}';
    const { body } = await create({ ...WELCOME, html, variables });
    assert.deepEqual(
      body.variables.map(({ type }) => type),
      ['number', 'boolean', 'array', 'object', 'string', 'string'],
    );
    assert.equal((await send({ to: 'ana@dest.test', template_id: 'welcome', variables: { name: 'A' } })).status, 202);
    const other = await send({ to: 'ana@dest.test', template_id: 'welcome', variables: { qty: 'x' } });
    assert.deepEqual([other.body.error.code, other.body.error.field], ['invalid_field', 'variables.qty']);
    const refused = await patch('welcome', { variables: [{ name: 'qty', type: 'boolean', default: 1 }] });
    assert.equal(refused.body.error.field, 'variables[0].default');
  });

  it('refuses to save or publish a default of another type that an earlier release has stored', async () => {
    const { id } = (await create({ ...WELCOME, publish: false })).body;
    const stored = [{ name: 'qty', type: 'string', required: false, default: 1 }];
    await app.app.db.commit.transact((tx) =>
      tx.run('UPDATE template_versions SET variables_json = ? WHERE template_id = ?', [JSON.stringify(stored), id]),
    );
    for (const { status, body, text } of [
      await patch('welcome', { subject: 'Good day' }),
      await patch('welcome', { publish: true }),
      await app.request<Template>('POST', '/v1/templates/welcome/publish'),
    ])
      assert.deepEqual(
        [status, body.error.code, body.error.field],
        [400, 'invalid_field', 'variables[0].default'],
        text,
      );
    assert.equal((await patch('welcome', { name: 'Renamed' })).body.name, 'Renamed');
    const mended = await patch('welcome', { variables: [{ name: 'qty', type: 'number', default: 1 }], publish: true });
    assert.equal(mended.body.status, 'published', mended.text);
  });

  it('removes with null what was given, and makes no version where nothing is new', async () => {
    const given = { locale: 'de-AT', timezone: 'Europe/Vienna', strict_variables: true };
    const { body: made } = await create({ ...WELCOME, ...given });
    const members = (body: Template & Partial<typeof given>) => [body.locale, body.timezone, body.strict_variables];
    const same = await patch('welcome', { ...WELCOME, ...given });
    assert.deepEqual([same.status, same.body.version], [200, 1], same.text);
    assert.deepEqual(same.body, made);
    const cleared = await patch('welcome', { locale: null, timezone: null, strict_variables: null, publish: true });
    assert.deepEqual([...members(cleared.body), cleared.body.version], ['en', 'UTC', false, 2]);
    const again = await patch('welcome', { locale: null, publish: true });
    assert.deepEqual(again.body, cleared.body);
    assert.equal((await patch('welcome', { name: null })).body.name, 'welcome');
    assert.deepEqual((await patch('welcome', { name: null, alias: null })).status, 200);
    assert.equal((await read(made.id)).body.name, 'Hello {{ name }}');
  });

  it('refuses a version without its template, in a preview as in a send', async () => {
    const message = { subject: 's', html: 'x', template_version: 1, variables: {} };
    const refusals = [
      await send({ ...message, from: WELCOME.from, to: 'ana@dest.test' }),
      await app.request<{ error: { code: string; field: string } }>('POST', '/v1/templates/render', message),
    ];
    for (const { status, body } of refusals)
      assert.deepEqual([status, body.error.code, body.error.field], [400, 'missing_field', 'template_id']);
  });

  it('makes a new version of each change, and sends the published one until another is', async () => {
    const { body: first } = await create();
    const changed = await patch('welcome', { subject: 'Good day {{ name }}' });
    assert.deepEqual([changed.body.version, changed.body.status, changed.body.published_version], [2, 'draft', 1]);
    const message = { to: 'ana@dest.test', template_id: 'welcome', variables: { name: 'Ana' } };
    const before = await send(message);
    const named = await send({ ...message, template_version: 2 });
    const published = await app.request<Template>('POST', '/v1/templates/welcome/publish');
    assert.deepEqual(
      [published.status, published.body.status, published.body.published_version],
      [200, 'published', 2],
    );
    const after = await send(message);
    const subjects = [];
    for (const { body } of [before, named, after]) subjects.push((await received(body.id)).subject);
    assert.deepEqual(subjects, ['Hello Ana', 'Good day Ana', 'Good day Ana']);
    const { body: versions } = await app.get<{ data: object[] }>('/v1/templates/welcome/versions');
    assert.deepEqual(
      versions.data.map((one) => ('version' in one && 'status' in one ? [one.version, one.status] : [])),
      [
        [2, 'published'],
        [1, 'superseded'],
      ],
    );
    assert.deepEqual((await app.get<Template>(`/v1/templates/${first.id}?version=1`)).body.subject, 'Hello {{ name }}');
    const { body: record } = await app.get<{ template_id: string }>(`/v1/messages/${after.body.id}`);
    assert.equal(record.template_id, first.id);
    const listed = await app.get<{ data: { id: string }[] }>(`/v1/messages?template_id=${first.id}`);
    assert.equal(listed.body.data.length, 3);
  });

  it('refuses defaults that are larger than variables may be', async () => {
    const withDefault = (fallback: unknown) => ({
      ...WELCOME,
      variables: [{ name: 'plan', type: typeof fallback, default: fallback }],
    });
    const { status } = await app.request('POST', '/v1/templates', withDefault('x'.repeat(102_389)));
    assert.equal(status, 201);
    const deep = Array.from({ length: 11 }).reduce<unknown>((inner) => ({ a: inner }), 1);
    for (const fallback of ['x'.repeat(102_390), deep]) {
      const { body } = await app.request<Template>('PATCH', '/v1/templates/welcome', {
        variables: withDefault(fallback).variables,
      });
      assert.deepEqual([body.error.code, body.error.field], ['invalid_field', 'variables']);
    }
  });

  it('keeps a draft to itself, and what was accepted as it was', async () => {
    const { body: draft } = await create({ ...WELCOME, publish: false });
    assert.deepEqual([draft.status, draft.published_version], ['draft', null]);
    const message = { to: 'ana@dest.test', template_id: draft.id, variables: { name: 'Ana' } };
    const refused = await send(message);
    assert.deepEqual(
      [refused.status, refused.body.error.code, refused.body.error.field],
      [400, 'unknown_template', 'template_id'],
    );
    await app.request('POST', `/v1/templates/${draft.id}/publish`);
    const waiting = await send({ ...message, send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
    await patch(draft.id, { html: '<p>Something else</p>', publish: true });
    assert.equal((await app.request('DELETE', `/v1/templates/${draft.id}`)).status, 204);
    assert.equal((await read(draft.id)).status, 404);
    await app.nextAttempt(waiting.body.id);
    const mail = await received(waiting.body.id);
    assert.match(String(mail.html), /Hello Ana\./);
  });

  it('sends what it renders, with what the template or the request says', async () => {
    await create();
    const { body } = await send({
      to: 'ana@dest.test',
      template_id: 'welcome',
      variables: { name: '<b>Ana</b> {{ plan }}\r\nBcc: evil@dest.test', plan: 'pro', items: [{ t: 1 }, { t: '&' }] },
    });
    const mail = await received(body.id);
    assert.equal(mail.subject, 'Hello <b>Ana</b> {{ plan }} Bcc: evil@dest.test');
    assert.equal(mail.bcc, undefined);
    assert.match(
      String(mail.html),
      /<p>Hello &lt;b&gt;Ana&lt;\/b&gt; \{\{ plan \}\}.*, and thank you\.<\/p><i>1<\/i><i>&amp;<\/i>/s,
    );
    assert.deepEqual([mail.from?.text, mail.replyTo?.text], ['"Acme" <hi@acme.test>', 'answers@acme.test']);

    const own = await send({
      from: 'Other <other@acme.test>',
      to: 'ana@dest.test',
      subject: 'Own {{ name }}',
      reply_to: 'me@acme.test',
      template_id: 'welcome',
      variables: { name: 'Bo' },
    });
    const second = await received(own.body.id);
    assert.deepEqual(
      [second.subject, second.from?.text, second.replyTo?.text],
      ['Own Bo', '"Other" <other@acme.test>', 'me@acme.test'],
    );
  });

  it('renders what has variables, and leaves alone what has none', async () => {
    const base = {
      from: 'hi@acme.test',
      to: 'ana@dest.test',
      subject: '{{ a }}',
      html: '<p>{{ a }}{% if b %}!{% endif %}</p>',
    };
    const verbatim = await received((await send(base)).body.id);
    assert.deepEqual([verbatim.subject, String(verbatim.html).trim()], ['{{ a }}', base.html]);
    const rendered = await received((await send({ ...base, variables: { a: 1, b: true } })).body.id);
    assert.deepEqual([rendered.subject, String(rendered.html).trim()], ['1', '<p>1!</p>']);
  });

  it('finds its mail by id and by alias, also when the alias was given later', async () => {
    const { body: template } = await create({ ...WELCOME, alias: null });
    const sent = await send({ to: 'ana@dest.test', template_id: template.id, variables: { name: 'Ana' } });
    await app.send();
    const idsOf = async (name: string): Promise<string[]> => {
      const { body } = await app.get<{ data: { id: string }[] }>(`/v1/messages?template_id=${name}`);
      const count = await app.get<{ count: number }>(`/v1/messages/count?template_id=${name}`);
      assert.equal(count.body.count, body.data.length);
      return body.data.map(({ id }) => id);
    };
    assert.deepEqual(await idsOf('welcome'), []);
    assert.equal((await patch(template.id, { alias: 'welcome' })).status, 200);
    assert.deepEqual(await idsOf('welcome'), [sent.body.id]);
    assert.deepEqual(await idsOf(template.id), [sent.body.id]);
    assert.equal((await app.request('DELETE', '/v1/templates/welcome')).status, 204);
    assert.deepEqual(await idsOf('welcome'), []);
    assert.deepEqual(await idsOf(template.id), [sent.body.id], 'the mail outlives its template');
  });

  it('refuses sends that cannot be rendered', async () => {
    await create();
    const base = { to: 'ana@dest.test', template_id: 'welcome', variables: { name: 'Ana' } };
    const deep = JSON.parse('{"a":'.repeat(12) + '1' + '}'.repeat(12)) as object;
    const rows = [
      [{ ...base, template_id: 'nowhere' }, 'unknown_template', 'template_id'],
      [{ ...base, template_version: 9 }, 'unknown_template', 'template_id'],
      [{ ...base, html: 'x' }, 'mutually_exclusive_fields', 'html'],
      [{ ...base, variables: {} }, 'missing_variable', 'variables.name'],
      [{ ...base, variables: { name: 7 } }, 'invalid_field', 'variables.name'],
      [{ ...base, variables: 7 }, 'invalid_type', 'variables'],
      [{ ...base, variables: { name: 'A', deep } }, 'invalid_field', 'variables'],
      [{ ...base, variables: { name: 'A'.repeat(110_000) } }, 'invalid_field', 'variables'],
      [{ ...base, variables: { name: 'A'.repeat(2000) } }, 'field_too_long', 'subject'],
      [{ ...base, locale: '?' }, 'invalid_field', 'locale'],
      [{ ...base, subject: '{{' }, 'template_syntax_error', 'subject'],
      [{ ...base, to: 'nobody' }, 'invalid_recipient', 'to'],
      [
        {
          from: 'hi@acme.test',
          to: 'ana@dest.test',
          subject: 's',
          text: '{{ x }}',
          variables: {},
          strict_variables: true,
        },
        'missing_variable',
        'variables.x',
      ],
      [
        { from: 'hi@acme.test', to: 'ana@dest.test', subject: 's', text: 't', template_version: 1 },
        'missing_field',
        'template_id',
      ],
    ] as const;
    for (const [body, code, field] of rows) {
      const { status, body: answer, text } = await send(body);
      assert.deepEqual([status, answer.error.code, answer.error.field], [400, code, field], text);
    }
  });

  it('sends in bulk: variables merge, entries override, and one that fails is one that fails', async () => {
    await create();
    const recipients = [
      { to: 'ana@dest.test', variables: { name: 'Ana' } },
      { to: 'bo@dest.test', subject: 'Ahoj {{ name }}', variables: { name: 'Bo', plan: 'pro' } },
      { to: 'cy@dest.test' },
      { to: 'di@dest.test', text: 'Just {{ name }} of {{ shop }}', variables: { name: 'Di' }, subject: 's' },
      { to: 'nobody', variables: { name: 'N' } },
    ];
    const answer = await bulk({
      from: 'hi@acme.test',
      template_id: 'welcome',
      variables: { shop: 'Acme' },
      recipients,
    });
    assert.equal(answer.status, 202, answer.text);
    assert.deepEqual(
      answer.body.data.map(({ status, error }) => error?.code ?? status),
      ['queued', 'queued', 'missing_variable', 'queued', 'invalid_recipient'],
    );
    assert.equal(answer.body.data[2]?.error?.field, 'recipients[2].variables.name');
    const mails = [];
    for (const n of [0, 1, 3]) mails.push(await received(answer.body.data[n]?.id ?? ''));
    assert.deepEqual(
      mails.map(({ subject }) => subject),
      ['Hello Ana', 'Ahoj Bo', 's'],
    );
    assert.match(String(mails[1]?.html), /Hello Bo, and thank you/);
    assert.equal(mails[2]?.text?.trim(), 'Just Di of Acme');
    const aborted = await bulk({ from: 'hi@acme.test', template_id: 'welcome', on_error: 'abort', recipients });
    assert.deepEqual(
      [aborted.status, aborted.body.error.code, aborted.body.error.field],
      [400, 'missing_variable', 'recipients[2].variables.name'],
    );
    const unknown = await bulk({ from: 'hi@acme.test', template_id: 'nowhere', recipients });
    assert.equal(unknown.body.error.code, 'unknown_template');
  });

  it('takes a thousand entries with a large body, read in a thread', async () => {
    await create({ ...WELCOME, html: `<p>{{ name }}</p>${'<p>The same for all.</p>'.repeat(200)}` });
    const pad = 'x'.repeat(400);
    const recipients = Array.from({ length: 1000 }, (_, n) => ({
      to: `r${String(n)}@dest.test`,
      variables: { name: `N${String(n)}`, pad },
    }));
    const answer = await bulk({ template_id: 'welcome', recipients, test: true });
    assert.deepEqual([answer.status, answer.body.accepted], [202, 1000], answer.text.slice(0, 500));
  });

  it('tries a template without sending: faults are part of the answer', async () => {
    await create();
    const render = (body: object) => app.request<Rendered>('POST', '/v1/templates/render', body);
    const good = await render({ template_id: 'welcome', variables: { name: 'Ana' } });
    assert.equal(good.status, 200, good.text);
    assert.deepEqual(
      [good.body.object, good.body.valid, good.body.subject?.rendered, good.body.text],
      ['render', true, 'Hello Ana', null],
    );
    assert.deepEqual(good.body.variables, ['name', 'plan', 'items', 't']);
    const bad = await render({ subject: 'ok', html: 'a\n  {{#if x}}{% if y %}{{/if}}' });
    assert.deepEqual([bad.status, bad.body.valid, bad.body.subject?.rendered], [200, false, 'ok']);
    const [error] = bad.body.html?.errors ?? [];
    assert.deepEqual([error?.code, error?.line, error?.column], ['template_syntax_error', 2, 22]);
    const large = await render({ html: 'x'.repeat(512 * 1024 + 1), text: '{{ x }}', variables: { x: 1 } });
    assert.equal(large.body.html?.errors[0]?.code, 'template_render_failed', large.text);
    assert.equal(large.body.text?.rendered, '1');
    const link = await render({ html: '<a\n href="{{{ url }}}">', variables: { url: ' JavaScript:alert(1)' } });
    const [refused] = link.body.html?.errors ?? [];
    assert.deepEqual([refused?.code, refused?.line, refused?.column], ['template_render_failed', 2, 8]);
    const slow = await render({
      html: '{% for i in (1..40000) %}{% assign x = "a,b" | split: "," | sort | join: "-" | upcase %}{% endfor %}done',
    });
    assert.ok(slow.body.valid || slow.body.html?.errors[0]?.code === 'template_render_failed', slow.text);
    assert.equal((await render({})).status, 400);
  });

  it('tries a template with variables that a send would refuse: they are faults of the parts that ask for them', async () => {
    await create();
    const render = async (body: object): Promise<Rendered> =>
      (await app.request<Rendered>('POST', '/v1/templates/render', { template_id: 'welcome', ...body })).body;
    for (const [variables, code] of [
      [{}, 'missing_variable'],
      [{ name: null }, 'missing_variable'],
      [{ name: 7 }, 'invalid_field'],
    ] as const) {
      const { valid, subject } = await render({ variables });
      assert.deepEqual(
        [valid, subject?.rendered, subject?.errors.map((error) => [error.code, error.line])],
        [false, null, [[code, null]]],
      );
      assert.equal((await send({ to: 'ana@dest.test', template_id: 'welcome', variables })).body.error.code, code);
    }
    assert.equal((await render({ variables: { name: 'Ana' } })).valid, true);
    assert.equal((await render({ variables: {}, mark_missing: true })).valid, true, 'a preview');
  });

  it('takes the version of an entry where the template is that of the request', async () => {
    await create();
    await patch('welcome', { subject: 'Good day {{ name }}' });
    const variables = { name: 'Ana' };
    const recipients = [
      { to: 'one@dest.test', template_version: 2, variables },
      { to: 'two@dest.test', variables },
    ];
    const { body, text } = await bulk({ template_id: 'welcome', recipients });
    assert.equal(body.accepted, 2, text);
    const records = await Promise.all(
      body.data.map(
        async ({ id }) =>
          (await app.get<{ subject: string; template_version: number }>(`/v1/messages/${id ?? ''}`)).body,
      ),
    );
    assert.deepEqual(
      records.map(({ subject, template_version: version }) => [subject, version]),
      [
        ['Good day Ana', 2],
        ['Hello Ana', 1],
      ],
    );
    const alone = await bulk({
      from: 'hi@acme.test',
      subject: 's',
      text: 't',
      recipients: [{ to: 'one@dest.test', template_version: 2 }, { to: 'two@dest.test' }],
    });
    assert.equal(alone.body.data[0]?.error?.code, 'missing_field', alone.text);
  });

  it('stores the bodies of a bulk send compressed, and sends the same', async () => {
    const rows = Array.from(
      { length: 600 },
      (_, n) => `<tr><td style="padding:8px 16px;color:#333333">Row ${String(n)} for {{ name }}</td></tr>`,
    );
    const html = `<table>${rows.slice(0, 300).join('\n').replaceAll(' for {{ name }}', '')}{% for i in items %}<p class="item">{{ i }}</p>{% endfor %}${rows.slice(300, 320).join('\n')}</table>${'<!-- the same for all -->'.repeat(1000)}`;
    await create({ alias: 'large', subject: 'S', from: 'hi@acme.test', html, variables: [] });
    const size = async (): Promise<number> => {
      const [row] = await app.app.db.prepared.all<{ n: number }>(
        "SELECT coalesce(sum(length(coalesce(html, '')) + length(coalesce(text, '')) + coalesce(length(packed), 0)), 0) AS n FROM contents",
      );
      return row?.n ?? 0;
    };
    const recipients = Array.from({ length: 200 }, (_, n) => ({
      to: `r${String(n)}@dest.test`,
      variables: { name: `Ann <${String(n)}>`, items: ['x', 'y', n] },
    }));
    const before = await size();
    const { status, body } = await bulk({ template_id: 'large', recipients });
    assert.equal(status, 202);
    assert.ok(
      (await size()) - before < (200 * html.length) / 10,
      `${String((await size()) - before)} characters for ${String(html.length)}`,
    );
    const id = String(body.data[7]?.id);
    const { body: content } = await app.get<{ html: string }>(`/v1/messages/${id}/content`);
    const expected = html
      .replaceAll('{{ name }}', 'Ann &lt;7&gt;')
      .replace(/\{% for.*endfor %\}/, ['x', 'y', '7'].map((i) => `<p class="item">${i}</p>`).join(''));
    assert.equal(content.html, expected);
    const mail = await received(id);
    assert.equal(String(mail.html).trim(), expected);
  });
});
