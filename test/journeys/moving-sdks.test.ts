/** Programs that were written for other services: their own SDKs, with another address and another key, send to a real receiver. */
/* eslint-disable @typescript-eslint/no-unsafe-class-instance-assignment -- programs give plain objects to this SDK, as its README shows */
import assert from 'node:assert/strict';
import sgClient from '@sendgrid/client';
import sgMail from '@sendgrid/mail';
import Mailgun from 'mailgun.js';
import { ServerClient, Errors, Models } from 'postmark';
import { Resend } from 'resend';
import { decodeWords } from '../../src/mail/charset.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { readMail } from '../support/harness/seen-mail.ts';

const LATER = '2026-02-02T08:00:00.000Z';
const INVOICE = Buffer.from('an invoice');

describe('journey: programs of other services', () => {
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    for (const alias of ['1234567', 'd-1234567']) {
      const template = { alias, subject: 'Hello {{name}}', html: '<p>Hello {{name}}</p>' };
      assert.equal((await app.request('POST', '/v1/templates', template)).status, 201);
    }
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const mails = () => server.sessions.flatMap((session) => session.mails);
  const baseOf = (service: string): string => `${app.url}/compat/${service}`;

  /** Checks the mail of each SDK: it has the same parts, whatever the names that the program gave them. */
  async function checkFullMail(): Promise<void> {
    await app.settled();
    assert.deepEqual(
      mails()
        .flatMap(({ to }) => to)
        .sort(),
      ['ana@dest.test', 'bo@dest.test', 'cy@dest.test'],
    );
    const [mail] = mails();
    assert.ok(mail !== undefined);
    const { html, text, header } = await readMail(mail.data);
    assert.match(html, /<h1>it works!<\/h1>/);
    assert.match(text, /it works!/i);
    assert.match(header('to') ?? '', /^"?Ana"? <ana@dest\.test>$/);
    assert.equal(header('cc'), 'bo@dest.test');
    assert.equal(header('bcc'), null);
    assert.equal(header('reply-to'), 'help@acme.test');
    assert.equal(header('x-order'), '17');
    assert.match(mail.data, /filename="?invoice\.txt/);
    assert.match(mail.data, new RegExp(INVOICE.toString('base64')));
    assert.deepEqual(await auditedSends(), ['POST 1']);
  }

  /** Returns the acts of the audit about mail: one for each request, whatever its form. */
  async function auditedSends(): Promise<string[]> {
    const { body } = await app.get<{ data: { operation: string; method: string; status: number; endpoint: string }[] }>(
      '/v1/audit?limit=100',
    );
    const sends = body.data.filter(
      ({ operation, endpoint }) => operation === 'sendMessage' && endpoint.startsWith('/compat/'),
    );
    return [`POST ${String(sends.length)}`];
  }

  async function suppress(email: string, reason = 'hard_bounce'): Promise<void> {
    assert.equal((await app.request('POST', '/v1/suppressions', { email, reason })).status, 201);
  }

  it('serves programs that keep only the host, or write what a header would have', async () => {
    const post = async (path: string, headers: Record<string, string>, body: object | FormData) => {
      const isForm = body instanceof FormData;
      const response = await fetch(`${app.url}${path}`, {
        method: 'POST',
        headers: { ...headers, ...(isForm ? {} : { 'content-type': 'application/json' }) },
        body: isForm ? body : JSON.stringify(body),
      });
      assert.ok(response.ok, `${path}: ${String(response.status)} ${await response.text()}`);
    };
    const bearer = { authorization: `Bearer ${app.key}` };
    const text = { subject: 'Hi', text: 'Hi.' };
    const encoded = '=?utf-8?q?J=C3=B6=2C_K?= <ana@dest.test>';
    await post('/emails', bearer, {
      ...text,
      from: '=?utf-8?q?Acm=C3=A9?= <hi@acme.test>',
      to: [encoded],
      reply_to: 'help@acme.test',
      headers: { 'Reply-To': 'help@acme.test', 'X-Tag': ['a', 'b'] },
    });
    const named = { email: 'ana@dest.test', name: '"Jö, K"' };
    await post('/v3/mail/send', bearer, {
      subject: 'Hi',
      from: { email: 'hi@acme.test', name: 'Acmé' },
      personalizations: [{ to: [named] }],
      content: [{ type: 'text/plain', value: 'Hi.' }],
      headers: { 'X-Tag': 'a, b' },
      reply_to_list: [{ email: 'help@acme.test' }],
    });
    const token = { 'x-postmark-server-token': app.key };
    await post('/email/withTemplate/', token, {
      From: 'Acmé <hi@acme.test>',
      To: encoded,
      ReplyTo: 'help@acme.test',
      Headers: [{ Name: 'X-Tag', Value: 'a, b' }],
      TemplateId: 1234567,
      TemplateModel: { name: 'Ana' },
    });
    const form = new FormData();
    for (const [name, value] of Object.entries({
      ...text,
      from: 'Acmé <hi@acme.test>',
      'h:Reply-To': 'help@acme.test',
    }))
      form.set(name, value);
    form.set('to[0]', encoded);
    form.set('h:X-Tag', 'a, b');
    form.set('attachment[0]', new Blob(['a']), 'a.txt');
    const basic = { authorization: `Basic ${Buffer.from(`api:${app.key}`).toString('base64')}` };
    await post('/v3/acme.test/messages', basic, form);
    await app.settled();
    const seen = await Promise.all(mails().map(({ data }) => readMail(data)));
    assert.equal(seen.length, 4);
    for (const { header } of seen)
      assert.deepEqual(
        ['from', 'to', 'reply-to', 'x-tag'].map((name) => decodeWords(header(name) ?? '')),
        ['Acmé <hi@acme.test>', 'Jö, K <ana@dest.test>', 'help@acme.test', 'a, b'],
      );
  });

  describe('Resend', () => {
    const sdk = (): Resend => new Resend(app.key, { baseUrl: baseOf('resend') });

    it('sends a mail with all that it can have', async () => {
      const { data, error } = await sdk().emails.send({
        from: 'Acme <hi@acme.test>',
        to: ['Ana <ana@dest.test>', 'bo@dest.test'],
        bcc: 'cy@dest.test',
        replyTo: 'help@acme.test',
        subject: 'hello world',
        html: '<h1>it works!</h1>',
        headers: { 'X-Order': '17' },
        tags: [{ name: 'order', value: '17' }],
        attachments: [{ filename: 'invoice.txt', content: INVOICE }],
      });
      assert.equal(error, null);
      await checkFullMail();
      const read = await sdk().emails.get(data.id);
      assert.equal(read.data?.last_event, 'delivered');
      assert.deepEqual(read.data.to, ['Ana <ana@dest.test>']);
      assert.equal((await sdk().emails.list()).data?.data[0]?.id, data.id);
    });

    it('sends templates, schedules in plain English, moves and cancels', async () => {
      const at = (scheduledAt: string) =>
        sdk().emails.send({
          from: 'hi@acme.test',
          to: 'ana@dest.test',
          template: { id: '1234567', variables: { name: 'Ana' } },
          scheduledAt,
        });
      const { data } = await at('in 2 hours');
      assert.ok(data !== null);
      const soon = await app.get<{ send_at: string; subject: string }>(`/v1/messages/${data.id}`);
      assert.equal(Date.parse(soon.body.send_at), app.clock.now() + 7_200_000);
      assert.equal(soon.body.subject, 'Hello Ana');
      assert.deepEqual((await sdk().emails.update({ id: data.id, scheduledAt: LATER })).data, {
        object: 'email',
        id: data.id,
      });
      assert.deepEqual((await sdk().emails.cancel(data.id)).data, { object: 'email', id: data.id });
      assert.equal((await sdk().emails.get(data.id)).data?.last_event, 'canceled');
    });

    it('sends batches: a bad entry refuses all, or is named', async () => {
      const good = { from: 'hi@acme.test', subject: 'News', text: 'It is here.' };
      const batch = [
        { ...good, to: 'ana@dest.test' },
        { ...good, to: 'nobody' },
      ];
      const strict = await sdk().batch.send(batch);
      assert.equal(strict.error?.name, 'validation_error');
      assert.match(strict.error.message, /`\[1\]\.to`/);
      const permissive = await sdk().batch.send(batch, { batchValidation: 'permissive' });
      assert.equal(permissive.data?.data.length, 1);
      assert.deepEqual(
        permissive.data.errors.map(({ index }) => index),
        [1],
      );
    });

    it('repeats the answer to a repeated Idempotency-Key, and pages by ids', async () => {
      const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Once', text: 'Once.' };
      const [first, second] = [
        await sdk().emails.send(mail, { idempotencyKey: 'order-17' }),
        await sdk().emails.send(mail, { idempotencyKey: 'order-17' }),
      ];
      assert.equal(second.data?.id, first.data?.id);
      const third = await sdk().emails.send({ ...mail, subject: 'Again' });
      const ids = async (options: object) => (await sdk().emails.list(options)).data?.data.map(({ id }) => id);
      assert.deepEqual(await ids({ limit: 1 }), [third.data?.id]);
      assert.deepEqual(await ids({ limit: 1, after: third.data?.id }), [first.data?.id]);
      assert.deepEqual(await ids({ limit: 1, before: first.data?.id }), [third.data?.id]);
      const reused = await sdk().emails.send({ ...mail, subject: 'Again' }, { idempotencyKey: 'order-17' });
      assert.deepEqual([reused.error?.name, reused.error?.statusCode], ['invalid_idempotent_request', 409]);
      const soon = { ...mail, scheduledAt: 'in 2 hours' };
      const planned = await sdk().emails.send(soon, { idempotencyKey: 'order-18' });
      app.clock.advance(60_000);
      const again = await sdk().emails.send(soon, { idempotencyKey: 'order-18' });
      assert.equal(again.data?.id, planned.data?.id);
      await sdk().emails.cancel(planned.data?.id ?? '');
    });

    it('shows errors as its own kind', async () => {
      const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Hi', text: 'Hi.' };
      const nameOf = async (options: object, client = sdk()) => {
        const { error } = await client.emails.send({ ...mail, ...options });
        return [error?.name, error?.statusCode];
      };
      assert.deepEqual(await nameOf({ from: 'hi@elsewhere.test' }), ['invalid_from_address', 403]);
      assert.deepEqual(await nameOf({ to: 'nobody' }), ['validation_error', 422]);
      assert.deepEqual(await nameOf({ topicId: 'x' }), ['validation_error', 422]);
      const stranger = new Resend('ak_live_unknown', { baseUrl: baseOf('resend') });
      assert.deepEqual(await nameOf({}, stranger), ['invalid_api_key', 401]);
      const gone = await sdk().emails.get('msg_01jz5w8q3hf2m9d4x6k7c1b0na');
      assert.equal(gone.error?.name, 'not_found');
      const missing = await sdk().domains.list();
      assert.equal(missing.error?.name, 'not_found');
    });
  });

  describe('Postmark', () => {
    const sdk = (key = app.key): ServerClient => {
      const client = new ServerClient(key);
      client.setClientOptions({ requestHost: `${new URL(app.url).host}/compat/postmark`, useHttps: false });
      return client;
    };

    it('sends a mail with all that it can have', async () => {
      const sent = await sdk().sendEmail({
        From: 'Acme <hi@acme.test>',
        To: 'Ana <ana@dest.test>, bo@dest.test',
        Bcc: 'cy@dest.test',
        ReplyTo: 'help@acme.test',
        Subject: 'hello world',
        HtmlBody: '<h1>it works!</h1>',
        Tag: 'welcome',
        Metadata: { order: '17' },
        Headers: [{ Name: 'X-Order', Value: '17' }],
        TrackLinks: Models.LinkTrackingOptions.None,
        MessageStream: 'outbound',
        Attachments: [
          {
            Name: 'invoice.txt',
            Content: INVOICE.toString('base64'),
            ContentType: 'text/plain',
            ContentID: 'cid:invoice',
          },
        ],
      });
      assert.equal(sent.ErrorCode, 0);
      assert.equal(sent.Message, 'OK');
      await checkFullMail();
      const read = await sdk().getOutboundMessageDetails(sent.MessageID);
      assert.equal(read.Status, 'Sent');
      assert.equal(read.Tag, 'welcome');
      assert.equal(read.MessageStream, 'outbound');
      assert.deepEqual(read.To, [{ Email: 'ana@dest.test', Name: 'Ana' }]);
      assert.deepEqual([...new Set(read.MessageEvents.map(({ Type }) => Type))], ['Delivered']);
      const list = await sdk().getOutboundMessages({ count: 10, offset: 0, tag: 'welcome' });
      assert.equal(list.Messages[0]?.MessageID, sent.MessageID);
    });

    it('sends templates, and batches that name a bad entry', async () => {
      const template = { From: 'hi@acme.test', TemplateId: 1234567, TemplateModel: { name: 'Ana' } };
      const one = await sdk().sendEmailWithTemplate({ ...template, To: 'ana@dest.test' });
      assert.equal((await app.message(one.MessageID)).status, 'queued');
      const batch = await sdk().sendEmailBatch([
        { From: 'hi@acme.test', To: 'ana@dest.test', Subject: 'Hi', TextBody: 'Hi.' },
        { From: 'hi@acme.test', To: 'nobody', Subject: 'Hi', TextBody: 'Hi.' },
      ]);
      assert.deepEqual(
        batch.map(({ ErrorCode }) => ErrorCode),
        [0, 300],
      );
      const templates = sdk().sendEmailBatchWithTemplates([{ ...template, To: 'nobody' }]);
      await assert.rejects(templates, Errors.InvalidEmailRequestError, 'no entry is good');
    });

    it('lists bounces, and reads and changes the suppression list', async () => {
      server.options.script = { rcpt: () => '550 5.1.1 no such user' };
      const sent = await sdk().sendEmail({
        From: 'hi@acme.test',
        To: 'gone@dest.test',
        Subject: 'Hi',
        TextBody: 'Hi.',
      });
      await app.settled();
      const { TotalCount, Bounces } = await sdk().getBounces();
      assert.equal(TotalCount, 1);
      assert.deepEqual(
        [Bounces[0]?.Type, Bounces[0]?.Email, Bounces[0]?.Inactive],
        ['HardBounce', 'gone@dest.test', true],
      );
      assert.match((await sdk().getBounce(Bounces[0]?.ID ?? 0)).Details, /no such user/);
      assert.equal(Bounces[0]?.MessageID, sent.MessageID);
      const listed = await sdk().getSuppressions('outbound');
      assert.deepEqual(
        listed.Suppressions.map(({ EmailAddress, SuppressionReason }) => [EmailAddress, SuppressionReason]),
        [['gone@dest.test', 'HardBounce']],
      );
      const added = await sdk().createSuppressions('outbound', {
        Suppressions: [{ EmailAddress: 'cy@dest.test' }, { EmailAddress: 'x' }],
      });
      assert.deepEqual(
        added.Suppressions.map(({ Status }) => Status),
        ['Suppressed', 'Failed'],
      );
      await suppress('angry@dest.test', 'complaint');
      const removed = await sdk().deleteSuppressions('outbound', {
        Suppressions: [{ EmailAddress: 'gone@dest.test' }, { EmailAddress: 'angry@dest.test' }],
      });
      assert.deepEqual(
        removed.Suppressions.map(({ Status }) => Status),
        ['Deleted', 'Failed'],
      );
    });

    it('shows errors as its own kind', async () => {
      const mail = { From: 'hi@acme.test', To: 'ana@dest.test', Subject: 'Hi', TextBody: 'Hi.' };
      await suppress('ana@dest.test');
      await assert.rejects(sdk().sendEmail(mail), (error) => {
        assert.ok(error instanceof Errors.InactiveRecipientsError);
        assert.deepEqual(error.recipients, ['ana@dest.test']);
        return true;
      });
      await assert.rejects(sdk().sendEmail({ ...mail, To: 'nobody' }), Errors.InvalidEmailRequestError);
      await assert.rejects(sdk().sendEmail({ ...mail, Surprise: 1 } as never), /`Surprise` has no counterpart/);
      await assert.rejects(sdk('ak_live_unknown').sendEmail(mail), Errors.InvalidAPIKeyError);
      await assert.rejects(sdk().getOutboundMessageDetails('msg_01jz5w8q3hf2m9d4x6k7c1b0na'), Errors.PostmarkError);
      await assert.rejects(sdk().getTemplates(), Errors.PostmarkError);
    });
  });

  describe('SendGrid', () => {
    beforeEach(() => {
      sgMail.setApiKey(app.key);
      sgMail.setClient(sgClient);
      sgClient.setApiKey(app.key);
      sgClient.setDefaultRequest('baseUrl', `${baseOf('sendgrid')}/`);
    });
    const idOf = ([answer]: [sgMail.ClientResponse, object]): string =>
      String((answer.headers as Record<string, string>)['x-message-id']);

    it('sends a mail with all that it can have', async () => {
      const answer = await sgMail.send({
        from: { email: 'hi@acme.test', name: 'Acme, Inc.' },
        to: { email: 'ana@dest.test', name: 'Ana' },
        cc: 'bo@dest.test',
        bcc: 'cy@dest.test',
        replyTo: 'help@acme.test',
        subject: 'hello world',
        html: '<h1>it works!</h1>',
        text: 'it works!',
        headers: { 'X-Order': '17' },
        categories: ['welcome'],
        customArgs: { order: '17' },
        trackingSettings: { clickTracking: { enable: false } },
        attachments: [{ filename: 'invoice.txt', content: INVOICE.toString('base64'), type: 'text/plain' }],
      });
      assert.equal(answer[0].statusCode, 202);
      const header = `"Acme, Inc." <hi@acme.test>`;
      const { body } = await app.get<{ from: string; tags: string[]; metadata: object }>(
        `/v1/messages/${idOf(answer)}`,
      );
      assert.deepEqual([body.from, body.tags, body.metadata], [header, ['welcome'], { order: '17' }]);
      const [mail] = (await app.settled(), mails());
      assert.match(mail?.data ?? '', /To: "?Ana"? <ana@dest\.test>/);
      await checkFullMail();
    });

    it('sends to several people, with substitutions and with a template', async () => {
      const many = await sgMail.send({
        from: 'hi@acme.test',
        subject: 'For -name-',
        html: '<p>-name-, {{ this stays }}</p>',
        personalizations: [
          { to: 'ana@dest.test', substitutions: { '-name-': 'Ana' } },
          { to: 'bo@dest.test', substitutions: { '-name-': 'B & O' } },
        ],
        substitutionWrappers: ['', ''],
      });
      await app.settled();
      const seen = await Promise.all(mails().map(({ data }) => readMail(data)));
      assert.deepEqual(seen.map(({ header, html }) => [header('subject'), html.trim()]).sort(), [
        ['For Ana', '<p>Ana, {{ this stays }}</p>'],
        ['For B & O', '<p>B & O, {{ this stays }}</p>'],
      ]);
      assert.match(idOf(many), /^bat_/);
      const one = await sgMail.send({
        from: 'hi@acme.test',
        to: 'ana@dest.test',
        templateId: 'd-1234567',
        dynamicTemplateData: { name: 'Ana' },
      });
      assert.equal((await app.get<{ subject: string }>(`/v1/messages/${idOf(one)}`)).body.subject, 'Hello Ana');
    });

    it('schedules, cancels a group, and refuses a mail with a bad entry', async () => {
      const sent = await sgMail.send({
        from: 'hi@acme.test',
        to: 'ana@dest.test',
        subject: 'Later',
        text: 'Later.',
        sendAt: Date.parse(LATER) / 1000,
        batchId: 'group-1',
      });
      assert.equal((await app.message(idOf(sent))).status, 'scheduled');
      const [{ statusCode }] = await sgClient.request({
        method: 'POST',
        url: '/v3/user/scheduled_sends',
        body: { batch_id: 'group-1', status: 'cancel' },
      });
      assert.equal(statusCode, 201);
      assert.equal((await app.message(idOf(sent))).status, 'canceled');
      for (const batch of [{}, { batch_id: 'group-2' }])
        await assert.rejects(
          sgClient.request({
            method: 'POST',
            url: '/v3/user/scheduled_sends',
            body: { ...batch, status: 'cancel' },
          }),
          ({ code, response }: sgMail.ResponseError) => {
            const { errors } = response.body as unknown as { errors: { field: string }[] };
            assert.deepEqual([code, errors[0]?.field], [400, 'batch_id']);
            return true;
          },
        );
      const [made] = await sgClient.request({ method: 'POST', url: '/v3/mail/batch' });
      const { batch_id: group } = made.body as { batch_id: string };
      assert.deepEqual([made.statusCode, group.startsWith('bat_')], [201, true]);
      const [read] = await sgClient.request({ method: 'GET', url: `/v3/mail/batch/${group}` });
      assert.deepEqual(read.body, { batch_id: group });
      const personalizations = [{ to: 'ana@dest.test' }, { to: 'nobody' }];
      await assert.rejects(
        sgMail.send({ from: 'hi@acme.test', subject: 'Hi', text: 'Hi.', personalizations }),
        ({ code, response }: sgMail.ResponseError) => {
          const { errors } = response.body as unknown as { errors: { field: string }[] };
          assert.deepEqual([code, errors[0]?.field], [400, 'personalizations[1].to']);
          return true;
        },
      );
    });

    it('reads and changes the suppression lists', async () => {
      await suppress('gone@dest.test');
      const get = async (url: string): Promise<unknown> =>
        (await sgClient.request({ method: 'GET', url }))[1] as unknown;
      assert.deepEqual(
        ((await get('/v3/suppression/bounces')) as { email: string }[]).map(({ email }) => email),
        ['gone@dest.test'],
      );
      assert.deepEqual(await get('/v3/asm/suppressions/global/cy@dest.test'), {});
      await sgClient.request({
        method: 'POST',
        url: '/v3/asm/suppressions/global',
        body: { recipient_emails: ['cy@dest.test'] },
      });
      assert.deepEqual(await get('/v3/asm/suppressions/global/cy@dest.test'), { recipient_email: 'cy@dest.test' });
      const [removed] = await sgClient.request({ method: 'DELETE', url: '/v3/suppression/bounces/gone@dest.test' });
      assert.equal(removed.statusCode, 204);
      await assert.rejects(get('/v3/suppression/blocks'), ({ code, response }: sgMail.ResponseError) => {
        assert.equal(code, 404);
        assert.match(JSON.stringify(response.body), /no counterpart here/);
        return true;
      });
    });

    it('shows errors as its own kind', async () => {
      const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Hi', text: 'Hi.' };
      const of = (status: number, message: RegExp) => (error: sgMail.ResponseError) => {
        assert.equal(error.code, status);
        assert.match(
          (error.response.body as unknown as { errors: { message: string }[] }).errors[0]?.message ?? '',
          message,
        );
        return true;
      };
      await assert.rejects(sgMail.send({ ...mail, sections: { a: 'b' } }), of(400, /`sections` has no counterpart/));
      await assert.rejects(sgMail.send({ ...mail, from: 'hi@elsewhere.test' }), of(403, /elsewhere\.test/));
      sgClient.setApiKey('ak_live_unknown');
      sgClient.setDefaultRequest('baseUrl', `${baseOf('sendgrid')}/`);
      await assert.rejects(sgMail.send(mail), of(401, /no such API key/));
    });
  });

  describe('Mailgun', () => {
    const sdk = (url = baseOf('mailgun'), key = app.key) => new Mailgun(FormData).client({ username: 'api', key, url });

    it('sends a mail with all that it can have', async () => {
      const sent = await sdk().messages.create('acme.test', {
        from: 'Acme <hi@acme.test>',
        to: ['Ana <ana@dest.test>', 'bo@dest.test'],
        bcc: 'cy@dest.test',
        subject: 'hello world',
        html: '<h1>it works!</h1>',
        'h:Reply-To': 'help@acme.test',
        'h:X-Order': '17',
        'o:tag': ['welcome', 'shop'],
        'o:tracking-opens': 'no',
        'v:order': '17',
        attachment: { filename: 'invoice.txt', data: INVOICE },
      });
      assert.match(sent.id ?? '', /^<msg_\w+@acme\.test>$/);
      await checkFullMail();
      const { items } = await sdk().events.get('acme.test', {
        event: 'delivered',
        begin: '1700000000',
        ascending: 'yes',
      });
      const [event] = items;
      assert.deepEqual([event?.tags, event?.['user-variables']], [['welcome', 'shop'], { order: '17' }]);
      const count = async (query: object) => (await sdk().events.get('acme.test', query)).items.length;
      assert.equal(await count({ event: 'delivered OR opened', 'message-id': sent.id ?? '' }), 3);
      assert.equal(await count({ 'message-id': '<none@acme.test>' }), 0);
      assert.equal(await count({ event: 'failed', severity: 'permanent' }), 0);
      const basic = { authorization: `Basic ${Buffer.from(`api:${app.key}`).toString('base64')}` };
      const seen: string[] = [];
      const { pages } = await sdk().events.get('acme.test', {
        event: 'delivered',
        recipient: 'bo@dest.test',
        limit: 1,
      });
      for (let url = pages.last.url, left = 4; left > 0; left--) {
        const page = (await (await fetch(`${app.url}${new URL(url).pathname}`, { headers: basic })).json()) as {
          items: { event: string; recipient: string }[];
          paging: { next: string };
        };
        if (page.items.length === 0) break;
        seen.push(...page.items.map(({ event: type, recipient }) => `${type} ${recipient}`));
        url = page.paging.next;
      }
      assert.deepEqual(seen, ['delivered bo@dest.test'], 'the addresses of pages keep the filter');
      const refused = (query: object, details: RegExp) => assert.rejects(count(query), { status: 400, details });
      await refused({ event: 'delivered OR stored' }, /`event` has `stored`/);
      await refused({ severity: 'mild' }, /`severity`/);
      await refused({ event: 'opened', severity: 'temporary' }, /`severity`/);
    });

    const MAIL = [
      'From: Acme <hi@acme.test>',
      'To: Ana <ana@dest.test>',
      'Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=',
      'X-Mailgun-Tag: welcome',
      'X-Mailgun-Variables: {"order":"17"}',
      'X-Mailgun-Drop-Message: no',
      'MIME-Version: 1.0',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: 8bit',
      '',
      'As it is: schön.',
      '',
    ].join('\r\n');

    it('sends a complete mail as it is, to the recipients of the form, and repeats an answer', async () => {
      const form = { to: ['Ana <ana@dest.test>', 'cy@dest.test'], 'o:tag': 'shop', 'v:user': 'u1' };
      const create = (message: string) =>
        sdk().messages.create('acme.test', { ...form, message: Buffer.from(message) });
      const sent = await create(MAIL);
      await app.settled();
      const seen = mails();
      assert.deepEqual(seen.flatMap(({ to }) => to).sort(), ['ana@dest.test', 'cy@dest.test']);
      const [mail] = seen;
      assert.ok(mail !== undefined);
      const { header, text } = await readMail(mail.data);
      assert.equal(text.trim(), 'As it is: schön.');
      assert.equal(header('subject'), '=?utf-8?Q?Gr=C3=BC=C3=9Fe?=');
      assert.equal(header('to'), 'Ana <ana@dest.test>');
      assert.match(header('received') ?? '', /with HTTP id msg_/);
      assert.doesNotMatch(mail.data, /x-mailgun/i);
      const id = /msg_\w+/.exec(sent.id ?? '')?.[0] ?? '';
      const { body } = await app.get<{ tags: string[]; metadata: object; cc: string[]; bcc: string[] }>(
        `/v1/messages/${id}`,
      );
      assert.deepEqual(
        [body.tags, body.metadata, body.cc, body.bcc],
        [['shop', 'welcome'], { order: '17', user: 'u1' }, [], ['cy@dest.test']],
      );
      assert.deepEqual(await auditedSends(), ['POST 1']);
      const large = MAIL.replace('As it is: schön.', 'Long line\r\n'.repeat(50_000))
        .replaceAll('\r\n', '\n')
        .replace('Message: no', 'Message: yes');
      const { body: simulated } = await app.get<{ test: boolean }>(
        `/v1/messages/${/msg_\w+/.exec((await create(large)).id ?? '')?.[0] ?? ''}`,
      );
      assert.equal(simulated.test, true);
    });

    it('repeats the answer to a complete mail under its Idempotency-Key', async () => {
      const post = async (message: string) => {
        const form = new FormData();
        form.set('to', 'ana@dest.test');
        form.set('message', message);
        const response = await fetch(`${app.url}/v3/acme.test/messages.mime`, {
          method: 'POST',
          body: form,
          headers: {
            authorization: `Basic ${Buffer.from(`api:${app.key}`).toString('base64')}`,
            'idempotency-key': 'order-17',
          },
        });
        return { status: response.status, ...((await response.json()) as { id?: string; message: string }) };
      };
      const first = await post(MAIL);
      assert.equal(first.status, 200);
      assert.equal((await post(MAIL)).id, first.id);
      await app.settled();
      assert.equal(mails().length, 1);
    });

    it('refuses a complete mail as it refuses it by SMTP', async () => {
      const refused = (change: Record<string, unknown>, status: number, details: RegExp) =>
        assert.rejects(
          sdk().messages.create('acme.test', { to: 'ana@dest.test', message: MAIL, ...change }),
          (error: { status: number; details: string }) => {
            assert.match(error.details, details);
            assert.equal(error.status, status);
            return true;
          },
        );
      await refused({ message: MAIL.replace('hi@acme.test', 'hi@elsewhere.test') }, 403, /elsewhere\.test/);
      await refused({ message: `From: a@acme.test\r\n${MAIL}` }, 400, /several from/i);
      await refused({ message: MAIL.replace('Drop-Message: no', 'Surprise: 1') }, 400, /o:surprise/);
      await refused({ to: 'nobody' }, 400, /address format/);
      const getFrom = async (path: string): Promise<void> => {
        const headers = { authorization: `Basic ${Buffer.from(`api:${app.key}`).toString('base64')}` };
        const response = await fetch(`${baseOf('mailgun')}/v3/${path}`, { headers });
        const { message } = (await response.json()) as { message: string };
        assert.deepEqual([response.status, message.includes('no counterpart here')], [404, true], path);
      };
      for (const path of ['domains', 'acme.test/tags', 'acme.test/stats/total', 'acme.test/events/a/b'])
        await getFrom(path);
      await refused({ subject: 'Another' }, 400, /`subject` has no counterpart/);
      await refused({ 'o:deliverytime': 'whenever' }, 400, /o:deliverytime/);
    });

    it('sends to each of several people with their values, as Ghost asks for it', async () => {
      const values = (name: string) => ({ name, list_unsubscribe: `https://acme.test/u/${name}` });
      const sent = await sdk(app.url).messages.create('acme.test', {
        to: ['ana@dest.test', 'bo@dest.test'],
        from: 'hi@acme.test',
        'h:Reply-To': 'hi@acme.test',
        subject: 'For %recipient.name%',
        html: '<p>%recipient.name%: {{ this stays }}</p>',
        text: '%recipient.name%, %recipient.unknown%',
        'recipient-variables': JSON.stringify({ 'ana@dest.test': values('Ana'), 'bo@dest.test': values('Bo') }),
        'h:Sender': 'hi@acme.test',
        'h:Auto-Submitted': 'auto-generated',
        'h:List-Unsubscribe': '<%recipient.list_unsubscribe%>, <%tag_unsubscribe_email%>',
        'h:List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
        'v:email-id': 'post-1',
        'o:tag': ['bulk-email', 'ghost-email'],
        'o:tracking-opens': true,
      });
      assert.match(sent.id ?? '', /^<bat_\w+@acme\.test>$/);
      await app.settled();
      const seen = await Promise.all(mails().map(({ data }) => readMail(data)));
      assert.deepEqual(seen.map(({ header }) => [header('subject'), header('to'), header('list-unsubscribe')]).sort(), [
        ['For Ana', 'ana@dest.test', '<https://acme.test/u/Ana>'],
        ['For Bo', 'bo@dest.test', '<https://acme.test/u/Bo>'],
      ]);
      assert.ok(
        seen.every(({ html, text }) => html.includes('{{ this stays }}') && text.includes('%recipient.unknown%')),
      );
      const query = {
        event: 'delivered OR failed',
        tags: 'bulk-email AND ghost-email',
        begin: '1700000000',
        ascending: 'yes' as const,
        limit: 1,
      };
      const first = await sdk(app.url).events.get('acme.test', query);
      assert.equal(first.items[0]?.['user-variables']['email-id'], 'post-1');
      const second = await sdk(app.url).events.get('acme.test', { ...query, page: first.pages.next.page });
      assert.notEqual(second.items[0]?.recipient, first.items[0].recipient);
    });

    it('takes a large file, which is read and checked in a thread, and a test key', async () => {
      const { body } = await app.request<{ key: string }>('POST', '/v1/keys', {
        name: 'test',
        scopes: ['send'],
        mode: 'test',
      });
      const data = Buffer.alloc(2 << 20, 'x');
      const sent = await sdk(baseOf('mailgun'), body.key).messages.create('acme.test', {
        from: 'hi@anywhere.test',
        to: 'ana@dest.test',
        subject: 'Large',
        text: 'See the file.',
        attachment: { filename: 'large.txt', data },
      });
      const id = /msg_\w+/.exec(sent.id ?? '')?.[0] ?? '';
      const read = await app.get<{ test: boolean; attachments: { size: number }[] }>(`/v1/messages/${id}/content`);
      assert.equal(read.body.attachments[0]?.size, data.length);
      const denied = await fetch(`${app.url}/compat/mailgun/v3/acme.test/bounces`, {
        headers: { authorization: `Basic ${Buffer.from(`api:${body.key}`).toString('base64')}` },
      });
      assert.deepEqual([denied.status, Object.keys((await denied.json()) as object)], [403, ['message']]);
    });

    it('sends templates and schedules', async () => {
      const sent = await sdk().messages.create('acme.test', {
        from: 'hi@acme.test',
        to: 'ana@dest.test',
        template: '1234567',
        't:variables': JSON.stringify({ name: 'Ana' }),
        'o:deliverytime': new Date(LATER).toUTCString(),
        inline: { filename: 'logo.png', data: Buffer.from('png') },
        'h:X-Mailgun-Variables': '{"name":"No one"}',
      });
      const id = /msg_\w+/.exec(sent.id ?? '')?.[0] ?? '';
      const { body } = await app.get<{ status: string; subject: string; send_at: string }>(`/v1/messages/${id}`);
      assert.deepEqual([body.status, body.subject, body.send_at], ['scheduled', 'Hello Ana', LATER]);
    });

    it('reads and changes the suppression lists', async () => {
      const { suppressions } = sdk();
      await suppressions.create('acme.test', 'bounces', {
        address: 'gone@dest.test',
        code: 550,
        error: 'no such user',
      });
      await suppressions.create('acme.test', 'complaints', [
        { address: 'angry@dest.test' },
        { address: 'cross@dest.test' },
      ]);
      const { items } = await suppressions.list('acme.test', 'bounces');
      assert.deepEqual(
        (items as { address: string; error: string }[]).map(({ address, error }) => [address, error]),
        [['gone@dest.test', 'no such user']],
      );
      const { address } = (await suppressions.get('acme.test', 'complaints', 'cross@dest.test')) as { address: string };
      assert.equal(address, 'cross@dest.test');
      const pages: number[] = [];
      let page: string | undefined;
      for (let count = 1; count > 0 && pages.length < 5; pages.push(count)) {
        const list = await suppressions.list('acme.test', 'complaints', {
          limit: 1,
          ...(page === undefined ? {} : { page }),
        });
        count = list.items.length;
        page = list.pages.next.page;
      }
      assert.deepEqual(pages, [1, 1, 0], 'programs read until a page is empty');
      await suppressions.destroy('acme.test', 'bounces', 'gone@dest.test');
      await assert.rejects(suppressions.get('acme.test', 'bounces', 'gone@dest.test'), { status: 404 });
    });

    it('shows errors as its own kind', async () => {
      const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Hi', text: 'Hi.' };
      const of = (status: number, details: RegExp) => (error: { type: string; status: number; details: string }) => {
        assert.equal(error.type, 'MailgunAPIError');
        assert.equal(error.status, status);
        assert.match(error.details, details);
        return true;
      };
      await assert.rejects(sdk().messages.create('acme.test', { ...mail, 'o:surprise': 'yes' }), of(400, /o:surprise/));
      await assert.rejects(sdk().messages.create('acme.test', { ...mail, 'o:dkim': 'no' }), of(400, /o:dkim/));
      await assert.rejects(sdk().messages.create('acme.test', { ...mail, to: 'nobody' }), of(400, /address format/));
      await assert.rejects(
        sdk(baseOf('mailgun'), 'ak_live_unknown').messages.create('acme.test', mail),
        of(401, /no such API key/),
      );
    });
  });
});
