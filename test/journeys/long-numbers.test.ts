/** A 64-bit id that a program in another language sends as a number must not become another number in the mail. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

interface Refusal {
  error: { code: string; field: string | null; message: string };
}

describe('numbers in data for mails', () => {
  let app: TestApp;
  before(async () => {
    app = await startTestApp();
  });
  after(() => app.stop());

  const mail = '"from":"hi@acme.test","subject":"S","text":"Order {{ id }}"';
  const refused = async (path: string, body: string, field: string): Promise<void> => {
    const { status, body: answer } = await app.request<Refusal>('POST', path, body, {
      headers: { 'content-type': 'application/json' },
    });
    assert.deepEqual(
      [status, answer.error.code, answer.error.field],
      [400, 'invalid_field', field],
      body.slice(0, 200),
    );
    assert.match(answer.error.message, /Send it as a string\.$/);
  };

  it('numbers in variables are not changed silently: those that would be are refused', async () => {
    await refused(
      '/v1/messages',
      `{${mail},"to":"ana@dest.test","variables":{"id":1234567890123456789}}`,
      'variables.id',
    );
    await refused(
      '/v1/messages',
      `{${mail},"to":"ana@dest.test","variables":{"a":{"b":[1,1e400]}}}`,
      'variables.a.b[1]',
    );
    await refused('/v1/templates/render', '{"text":"{{ id }}","variables":{"id":9007199254740993}}', 'variables.id');
    await refused(
      '/v1/templates',
      '{"subject":"S","text":"{{ id }}","variables":[{"name":"id","type":"number","default":9007199254740993}]}',
      'variables[0].default',
    );
    const filler = `"filler":"${'x'.repeat(300_000)}"`;
    const { body } = await app.request<Refusal>(
      'POST',
      '/v1/messages',
      `{${mail},"to":"ana@dest.test","variables":{"id":1234567890123456789},${filler}}`,
      { headers: { 'content-type': 'application/json' } },
    );
    assert.equal(body.error.field, 'variables.id', 'a large body, which is read in a thread');
  });

  it('metadata takes strings, so that no number in it is changed', async () => {
    const { status, body } = await app.request<Refusal>(
      'POST',
      '/v1/messages',
      `{${mail},"to":"ana@dest.test","metadata":{"id":1234567890123456789}}`,
      { headers: { 'content-type': 'application/json' } },
    );
    assert.deepEqual([status, body.error.code, body.error.field], [400, 'invalid_type', 'metadata.id']);
  });

  it('in a bulk send only the entry with such a number is left out', async () => {
    const recipients =
      '[{"to":"ana@dest.test","variables":{"id":"1234567890123456789"}},{"to":"bo@dest.test","variables":{"id":1234567890123456789}}]';
    const options = { headers: { 'content-type': 'application/json' } };
    const { status, body } = await app.request<{ data: { error: { code: string; field: string } | null }[] }>(
      'POST',
      '/v1/messages',
      `{${mail},"recipients":${recipients}}`,
      options,
    );
    assert.equal(status, 202);
    assert.deepEqual(
      body.data.map(({ error }) => error?.field ?? null),
      [null, 'recipients[1].variables.id'],
    );
    await refused(
      '/v1/messages',
      `{${mail},"on_error":"abort","recipients":${recipients}}`,
      'recipients[1].variables.id',
    );
  });

  it('leaves every other number as it was written', async () => {
    const { body } = await app.request<{ text: { rendered: string } }>('POST', '/v1/templates/render', {
      text: '{{ a }} {{ b }} {{ c }}',
      variables: { a: 9007199254740991, b: 0.1, c: -17.25 },
    });
    assert.equal(body.text.rendered, '9007199254740991 0.1 -17.25');
  });
});
