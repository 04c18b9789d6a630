import assert from 'node:assert/strict';
import { createJsonReader, INLINE_BYTES } from '../../src/api/json-reader.ts';
import type { JsonObject } from '../../src/api/json.ts';
import { checkApart, draftFrom } from '../../src/api/send-check.ts';
import { Problem } from '../../src/base/problem.ts';
import { defaultLimits } from '../../src/messages/request/send-limits.ts';
import { checkSend, type SendRules } from '../../src/messages/request/send-request.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const rules: SendRules = { now: Date.parse('2026-01-31T09:30:00Z'), smtputf8: false, limits: defaultLimits };
const file = (bytes: number): JsonObject => ({
  filename: 'a.pdf',
  content: Buffer.alloc(bytes, 'pdf').toString('base64'),
});
const single = (more: JsonObject): JsonObject => ({
  from: 'Acme <hi@acme.test>',
  to: 'ana@dest.test',
  subject: 'Žluť',
  text: 'hi',
  ...more,
});
const bulk = (recipients: JsonObject[], more: JsonObject = {}): JsonObject => ({
  from: 'hi@acme.test',
  subject: 'x',
  html: '<p>x</p>',
  recipients,
  ...more,
});
const long = 'x'.repeat(INLINE_BYTES);

/** The result of a request: the draft, or the members of the problem. */
function comesTo(make: () => unknown): unknown {
  try {
    return make();
  } catch (error) {
    assert.ok(error instanceof Problem);
    return { code: error.code, message: error.message, field: error.field };
  }
}

describe('api/send-check', () => {
  const bodies: [body: JsonObject, why: string][] = [
    [
      single({
        text: long,
        metadata: { a: 'b' },
        headers: { 'X-A': 'b' },
        tags: ['t'],
        send_at: '2026-02-01T00:00:00Z',
        test: true,
      }),
      'a single mail',
    ],
    [single({ attachments: [file(300_000), file(3)] }), 'attachments'],
    [
      single({ attachments: [{ ...file(300_000), content: `!${'A'.repeat(400_000)}` }] }),
      'an attachment that is no base64',
    ],
    [single({ text: long, reply: 'x' }), 'an unknown member'],
    [single({ text: long, recipients: null }), 'recipients that are null'],
    [
      bulk([{ to: 'a@x.test' }, { to: 'nobody' }, { to: 'b@x.test', html: long }], { attachments: [file(200_000)] }),
      'a bulk send with a bad entry',
    ],
    [bulk([{ to: 'nobody', html: long }]), 'a bulk send without a good entry'],
    [single({ text: long, metadata: { content: 'c'.repeat(80_000) } }), 'a long text that is no file'],
    [
      bulk([
        { to: 'a@x.test', attachments: [file(200_000), { ...file(200_000), filename: 'b.bin' }] },
        { to: 'b@x.test', html: long, attachments: [{ filename: 'c.bin', content: 'b'.repeat(80_001) }] },
      ]),
      'the same file twice, and one that is no base64',
    ],
    [bulk([{ to: 'a@x.test', html: long }, { to: 'a@x.test' }], { on_error: 'abort' }), 'a bulk send that is given up'],
  ];
  for (const [body, why] of bodies) {
    it(`comes to the same apart as here: ${why}`, async () => {
      const reader = createJsonReader({ clock: new FakeClock() });
      const read = await reader.read(Buffer.from(JSON.stringify(body)), { owner: 'acc_1', send: rules });
      const { checked } = read;
      assert.ok(checked !== null && checked.kind !== 'templated' && checked.kind !== 'mail');
      assert.deepEqual(
        comesTo(() => draftFrom(checked)),
        comesTo(() => checkSend(body, rules)),
      );
      const again = await reader.read(Buffer.from(JSON.stringify(body, null, 1)), { owner: 'acc_1', send: rules });
      assert.equal(read.hash(), again.hash(), 'the same request, written otherwise');
      assert.equal(read.value['recipients'] == null, body['recipients'] == null, 'the scope depends on it');
      assert.equal(
        Object.hasOwn(read.value, 'recipients'),
        Object.hasOwn(body, 'recipients'),
        'the size limit depends on it',
      );
      await reader.close();
    });
  }

  it('keeps a shared content shared, so that it is stored once', () => {
    const body = bulk([{ to: 'a@x.test' }, { to: 'b@x.test' }, { to: 'c@x.test', html: 'own' }], {
      attachments: [file(9)],
    });
    const checked = structuredClone(checkApart(body, rules));
    assert.ok(checked.kind !== 'templated');
    const draft = draftFrom(checked);
    assert.ok(draft.kind === 'bulk');
    const [a, b, c] = draft.entries.map((entry) => (entry.kind === 'ok' ? entry.draft.content : null));
    assert.ok(a != null && c != null);
    assert.equal(a, b);
    assert.notEqual(a, c);
    assert.ok(Buffer.isBuffer(a.attachments[0]?.content));
  });

  it('leaves small bodies and other requests alone', async () => {
    const reader = createJsonReader({ clock: new FakeClock() });
    assert.equal(
      (await reader.read(Buffer.from(JSON.stringify(single({}))), { owner: 'acc_1', send: rules })).checked,
      null,
    );
    const other = await reader.read(Buffer.from(JSON.stringify(single({ text: long }))), { owner: 'acc_1' });
    assert.deepEqual([other.checked, other.value['subject']], [null, 'Žluť']);
    await reader.close();
  });
});
