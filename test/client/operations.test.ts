/** The client and the document know the same operations: each has one method, which asks for the path that the document says. */
import assert from 'node:assert/strict';
import { MailClient } from '../../src/client/index.ts';
import { publishedDocument } from '../support/tools/published.ts';
import { fakeAround } from './around.ts';

type Row = readonly [operationId: string, path: string, call: (mail: MailClient) => Promise<unknown>];

const rows: readonly Row[] = [
  ['sendMessage', '/v1/messages', (m) => m.messages.send({ to: 'a@b.test' })],
  ['sendMessage', '/v1/messages', (m) => m.messages.sendBulk({ recipients: [{ to: 'a@b.test' }] })],
  ['listMessages', '/v1/messages', (m) => m.messages.list()],
  ['listMessages', '/v1/messages', (m) => m.messages.each().next()],
  ['getMessageCount', '/v1/messages/count', (m) => m.messages.count()],
  ['getMessage', '/v1/messages/{id}', (m) => m.messages.get('{id}')],
  ['updateMessage', '/v1/messages/{id}', (m) => m.messages.update('{id}', { send_at: '2026-02-01T08:00:00Z' })],
  ['listMessageAttempts', '/v1/messages/{id}/attempts', (m) => m.messages.attempts('{id}')],
  ['listMessageWebhookDeliveries', '/v1/messages/{id}/webhook-deliveries', (m) => m.messages.webhookDeliveries('{id}')],
  ['listMessageReports', '/v1/messages/{id}/reports', (m) => m.messages.reports('{id}')],
  ['getMessageReport', '/v1/messages/{id}/reports/{report_id}', (m) => m.messages.rawReport('{id}', '{report_id}')],
  [
    'getMessageReportContent',
    '/v1/messages/{id}/reports/{report_id}/content',
    (m) => m.messages.reportContent('{id}', '{report_id}'),
  ],
  ['explainMessage', '/v1/messages/{id}/why', (m) => m.messages.why('{id}')],
  ['getMessageContent', '/v1/messages/{id}/content', (m) => m.messages.content('{id}')],
  ['cancelMessage', '/v1/messages/{id}/cancel', (m) => m.messages.cancel('{id}')],
  ['resendMessage', '/v1/messages/{id}/resend', (m) => m.messages.resend('{id}', {})],
  ['listBatches', '/v1/batches', (m) => m.batches.list()],
  ['listBatches', '/v1/batches', (m) => m.batches.each().next()],
  ['getBatch', '/v1/batches/{id}', (m) => m.batches.get('{id}')],
  ['cancelBatch', '/v1/batches/{id}/cancel', (m) => m.batches.cancel('{id}')],
  ['createTemplate', '/v1/templates', (m) => m.templates.create({ text: 'x' })],
  ['listTemplates', '/v1/templates', (m) => m.templates.list()],
  ['listTemplates', '/v1/templates', (m) => m.templates.each().next()],
  ['renderTemplate', '/v1/templates/render', (m) => m.templates.render({ text: 'x' })],
  ['getTemplate', '/v1/templates/{id}', (m) => m.templates.get('{id}')],
  ['updateTemplate', '/v1/templates/{id}', (m) => m.templates.update('{id}', { text: 'x' })],
  ['deleteTemplate', '/v1/templates/{id}', (m) => m.templates.delete('{id}')],
  ['publishTemplate', '/v1/templates/{id}/publish', (m) => m.templates.publish('{id}')],
  ['listTemplateVersions', '/v1/templates/{id}/versions', (m) => m.templates.versions('{id}')],
  ['listEvents', '/v1/events', (m) => m.events.list()],
  ['listEvents', '/v1/events', (m) => m.events.stream().next()],
  ['createSuppression', '/v1/suppressions', (m) => m.suppressions.create({ email: 'a@b.test' })],
  ['createSuppression', '/v1/suppressions', (m) => m.suppressions.createMany({ emails: ['a@b.test'] })],
  ['importSuppressions', '/v1/suppressions/import', (m) => m.suppressions.import({ content: 'a@b.test' })],
  ['listSuppressions', '/v1/suppressions', (m) => m.suppressions.list()],
  ['listSuppressions', '/v1/suppressions', (m) => m.suppressions.each().next()],
  ['getSuppression', '/v1/suppressions/{email}', (m) => m.suppressions.get('{email}')],
  ['deleteSuppression', '/v1/suppressions/{email}', (m) => m.suppressions.delete('{email}')],
  ['listDomains', '/v1/domains', (m) => m.domains.list()],
  ['listDomains', '/v1/domains', (m) => m.domains.each().next()],
  ['createDomain', '/v1/domains', (m) => m.domains.create({ name: 'a.test' })],
  ['getDomain', '/v1/domains/{id}', (m) => m.domains.get('{id}')],
  ['updateDomain', '/v1/domains/{id}', (m) => m.domains.update('{id}', { track_opens: true })],
  ['deleteDomain', '/v1/domains/{id}', (m) => m.domains.delete('{id}')],
  ['verifyDomain', '/v1/domains/{id}/verify', (m) => m.domains.verify('{id}')],
  ['rotateDomainDkim', '/v1/domains/{id}/dkim/rotate', (m) => m.domains.rotateDkim('{id}')],
  ['listKeys', '/v1/keys', (m) => m.keys.list()],
  ['listKeys', '/v1/keys', (m) => m.keys.each().next()],
  ['createKey', '/v1/keys', (m) => m.keys.create({ name: 'a', scopes: ['send'] })],
  ['getKey', '/v1/keys/{id}', (m) => m.keys.get('{id}')],
  ['updateKey', '/v1/keys/{id}', (m) => m.keys.update('{id}', { name: 'b' })],
  ['revokeKey', '/v1/keys/{id}', (m) => m.keys.revoke('{id}')],
  ['listStreams', '/v1/streams', (m) => m.streams.list()],
  ['listStreams', '/v1/streams', (m) => m.streams.each().next()],
  ['createStream', '/v1/streams', (m) => m.streams.create({ slug: 'news', name: 'News', type: 'broadcast' })],
  ['updateStream', '/v1/streams/{id}', (m) => m.streams.update('{id}', { paused: true })],
  ['deleteStream', '/v1/streams/{id}', (m) => m.streams.delete('{id}')],
  ['getSettings', '/v1/settings', (m) => m.settings.get()],
  ['updateSettings', '/v1/settings', (m) => m.settings.update({ track_opens: true })],
  ['getAuditEntry', '/v1/audit/{id}', (m) => m.audit.get('{id}')],
  ['listAuditEntries', '/v1/audit', (m) => m.audit.list()],
  ['listAuditEntries', '/v1/audit', (m) => m.audit.each().next()],
  ['createWebhook', '/v1/webhooks', (m) => m.webhooks.create({ url: 'https://a.test/' })],
  ['listWebhooks', '/v1/webhooks', (m) => m.webhooks.list()],
  ['listWebhooks', '/v1/webhooks', (m) => m.webhooks.each().next()],
  ['getWebhook', '/v1/webhooks/{id}', (m) => m.webhooks.get('{id}')],
  ['updateWebhook', '/v1/webhooks/{id}', (m) => m.webhooks.update('{id}', { enabled: false })],
  ['deleteWebhook', '/v1/webhooks/{id}', (m) => m.webhooks.delete('{id}')],
  ['listWebhookDeliveries', '/v1/webhooks/{id}/deliveries', (m) => m.webhooks.deliveries('{id}')],
  [
    'resendWebhookDelivery',
    '/v1/webhooks/{id}/deliveries/{delivery_id}/resend',
    (m) => m.webhooks.resend('{id}', '{delivery_id}'),
  ],
  ['testWebhook', '/v1/webhooks/{id}/test', (m) => m.webhooks.test('{id}')],
  ['replayWebhook', '/v1/webhooks/{id}/replay', (m) => m.webhooks.replay('{id}', { since: '2026-01-01T00:00:00Z' })],
  ['listWebhookReplays', '/v1/webhooks/{id}/replays', (m) => m.webhooks.replays('{id}')],
  ['getWebhookSecret', '/v1/webhooks/{id}/secret', (m) => m.webhooks.secret('{id}')],
  ['rotateWebhookSecret', '/v1/webhooks/{id}/secret/rotate', (m) => m.webhooks.rotateSecret('{id}')],
  ['getMessageRaw', '/v1/messages/{id}/raw', (m) => m.messages.raw('{id}')],
  ['deleteMessageContent', '/v1/messages/{id}/content', (m) => m.messages.eraseContent('{id}')],
  ['deleteRecipient', '/v1/recipients/{email}', (m) => m.recipients.erase('{email}')],
  ['listReceived', '/v1/received', (m) => m.received.list()],
  ['listReceived', '/v1/received', (m) => m.received.each().next()],
  ['getReceived', '/v1/received/{id}', (m) => m.received.get('{id}')],
  ['deleteReceived', '/v1/received/{id}', (m) => m.received.delete('{id}')],
  ['getReceivedRaw', '/v1/received/{id}/raw', (m) => m.received.raw('{id}')],
  ['getReceivedAttachment', '/v1/received/{id}/attachments/{index}', (m) => m.received.attachment('{id}', '{index}')],
  ['getStats', '/v1/stats', (m) => m.stats.get()],
  ['getOpenapi', '/v1/openapi.json', (m) => m.openapi()],
];

interface Described {
  operationId: string;
  requestBody?: unknown;
  parameters?: { name?: string; in?: string; explode?: boolean; schema?: { type?: string } }[];
}

describe('client: operations', () => {
  let operations: (Described & { method: string; path: string })[];
  before(async () => {
    const { paths } = (await publishedDocument()) as { paths: Record<string, Record<string, Described>> };
    operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
    );
  });

  /** The requests that one method sends. */
  async function sent(call: Row[2]): Promise<{ method: string; path: string; body: string | null }> {
    const seen: { method: string; path: string; body: string | null }[] = [];
    const around = fakeAround();
    around.fetch = async (url, init = {}) => {
      const path = decodeURIComponent(new URL(url instanceof Request ? url.url : url).pathname);
      seen.push({ method: init.method ?? '', path, body: (init.body as string | undefined) ?? null });
      return Response.json({ data: [{}], has_more: false, next_cursor: 'c' });
    };
    await call(new MailClient({ apiKey: 'k', baseUrl: 'http://a.test' }, around));
    return seen[0] ?? assert.fail('nothing was sent');
  }

  for (const [operationId, path, call] of rows) {
    it(`${operationId}: ${call.toString().slice(5)}`, async () => {
      const described = operations.find((operation) => operation.operationId === operationId);
      assert.ok(described, 'the document does not know it');
      const request = await sent(call);
      assert.deepEqual([request.method, request.path], [described.method, path]);
      assert.equal(described.path, path);
      assert.equal(request.body !== null, described.requestBody !== undefined);
    });
  }

  it('has a method for every operation', () => {
    const named = new Set(rows.map(([operationId]) => operationId));
    // The client itself is for npm to download.
    const missing = operations.filter(
      ({ operationId }) => !operationId.startsWith('getClientPackage') && !named.has(operationId),
    );
    assert.deepEqual(
      missing.map(({ operationId }) => operationId),
      [],
    );
  });

  it('sends lists as the document says: each entry for itself', () => {
    const lists = operations.flatMap(({ parameters = [] }) =>
      parameters.filter(({ schema }) => schema?.type === 'array'),
    );
    assert.ok(lists.length > 2);
    for (const { name, explode } of lists) assert.equal(explode, true, name);
  });
});
