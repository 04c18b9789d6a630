/** A program in which something of each kind is there, for tests that walk the OpenAPI document: what its examples name exists. */
import assert from 'node:assert/strict';
import type { TestApp } from './app.ts';

export interface World {
  /** Ids of what exists, by the first word of the path behind /v1. */
  readonly ids: Readonly<Record<string, string>>;
  /** A path of the document with the ids of what exists. */
  targetOf(path: string): string;
}

export async function worldFor(app: TestApp): Promise<World> {
  await app.operator.ask('createDomain', { body: { name: 'acme.example', trusted: true } });
  const made = async (path: string, body: object): Promise<string> => {
    const answer = await app.request<{ id: string }>('POST', path, body);
    assert.ok(answer.status < 300, answer.text);
    return answer.body.id;
  };
  const mail = { from: 'hi@acme.example', subject: 'Later', text: 'Good day.', send_at: '2026-02-02T00:00:00Z' };
  const ids: Record<string, string> = {
    templates: await made('/v1/templates', { alias: 'other', subject: 'Hi', html: '<p>{{ name }}</p>' }),
    messages: await made('/v1/messages', { ...mail, to: 'ana@dest.test' }),
    batches: await made('/v1/messages', { ...mail, recipients: [{ to: 'bo@dest.test' }, { to: 'cy@dest.test' }] }),
    domains: await made('/v1/domains', { name: 'shop.test' }),
    keys: await made('/v1/keys', { name: 'child', scopes: ['send'] }),
    streams: await made('/v1/streams', { slug: 'world', name: 'World', type: 'broadcast' }),
    suppressions: 'gone@dest.test',
  };
  await app.request('POST', '/v1/suppressions', { email: ids['suppressions'] });
  // Where webhooks are served: an endpoint whose name leads nowhere, since nothing may leave the machine.
  const hook = await app.request<{ id: string }>('POST', '/v1/webhooks', { url: 'https://hooks.shop.test/' });
  if (hook.status === 201) ids['webhooks'] = hook.body.id;
  return {
    ids,
    targetOf: (path) =>
      path.replaceAll(/\{\w+\}/g, () =>
        encodeURIComponent(ids[path.split('/')[2] ?? ''] ?? 'msg_01jz5w8q3hf2m9d4x6k7c1b0na'),
      ),
  };
}
