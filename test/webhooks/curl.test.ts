import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { curlOf } from '../../src/webhooks/call.ts';
import type { WebhookDeliveryRow } from '../../src/storage/tables.ts';

const line: WebhookDeliveryRow = {
  id: 'whd_1',
  webhook_id: 'whk_1',
  event_id: 'evt_1',
  event_type: 'sent',
  sequence: 1,
  cause: 'event',
  attempt: 3,
  at: 1_769_851_802_481,
  ms: 1,
  status: 'delivered',
  status_code: 200,
  error: null,
  answer: null,
  signature: 'v1,abc= v1,def=',
  sample: null,
  next_attempt_at: null,
};

describe('webhooks/curl', () => {
  it('gives a shell the URL, the headers and the body unchanged, whatever they contain', () => {
    const body = `{"subject":"it's $HOME \`id\` \\"x\\" \\\\ ; & | > \n ž 💌 '' '"}`;
    const command = curlOf(line, { url: "https://hooks.acme.test/a'b?c=$(id)", headerNames: ['X-Token'], body });
    // NUL ends an argument, so no argument can have one.
    const { stdout } = spawnSync('sh', ['-c', command.replace(/^curl /, String.raw`printf '%s\0' `)], {
      encoding: 'utf8',
    });
    assert.deepEqual(stdout.split('\0'), [
      "https://hooks.acme.test/a'b?c=$(id)",
      '-H',
      'X-Token: <hidden>',
      '-H',
      'Content-Type: application/json',
      '-H',
      'User-Agent: posthorn-webhooks/1',
      '-H',
      'webhook-attempt: 3',
      '-H',
      'webhook-id: evt_1',
      '-H',
      'webhook-timestamp: 1769851802',
      '-H',
      'webhook-signature: v1,abc= v1,def=',
      '--data-raw',
      body,
      '',
    ]);
  });

  it('leaves the signature out for a received mail, whose text is not in the body', () => {
    const call = { url: 'https://hooks.acme.test/', headerNames: [], body: '{}' };
    assert.doesNotMatch(curlOf({ ...line, event_type: 'received' }, call), /webhook-signature/);
    assert.match(curlOf({ ...line, event_type: 'received', sample: '{}' }, call), /webhook-signature/);
  });
});
