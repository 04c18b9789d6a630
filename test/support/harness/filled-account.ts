/** An account with one of everything, for tests that ask every page of the dashboard. */
import assert from 'node:assert/strict';
import type { TestApp } from './app.ts';

/** Settings that let endpoints of webhooks be on this machine. */
export const localWebhooks = { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } };

/** Makes one of everything with `mark` in it, and returns the ids by the first part of the pages' addresses. */
export async function fillAccount(app: TestApp, mark: string): Promise<Record<string, string>> {
  const post = async (where: string, body: object): Promise<string> => {
    const { status, body: made, text } = await app.request<{ id: string }>('POST', where, body);
    assert.ok(status < 300, text);
    return made.id;
  };
  const { id: messages } = await app.send({
    subject: mark,
    tags: [mark],
    send_at: new Date(app.clock.now() + 3_600_000).toISOString(),
  });
  return {
    messages,
    templates: await post('/v1/templates', { name: mark, alias: mark, subject: mark, html: mark, publish: true }),
    domains: await post('/v1/domains', { name: `${mark}.example` }),
    streams: await post('/v1/streams', { slug: mark, name: mark, type: 'broadcast' }),
    webhooks: await post('/v1/webhooks', { url: 'http://127.0.0.1:1025/x', description: mark }),
    suppressions: await post('/v1/suppressions', { email: `${mark}@example.net`, note: mark }),
    developer: await post('/v1/keys', { name: mark, scopes: ['send'] }),
    delivery_id: 'whd_01m7xk7tjq3n8r5c1b0nam9d4x',
  };
}

/** Returns the address of a page with the ids of the account in the place of its parameters. */
export const addressOf = (path: string, ids: Readonly<Record<string, string>>): string =>
  path.replaceAll(
    /:([a-z_]+)/g,
    (_, name: string) => (name === 'id' ? ids[path.split('/')[1] ?? ''] : ids[name]) ?? 'none',
  );
