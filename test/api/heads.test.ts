import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import type { BudgetName } from '../../src/base/budgets.ts';
import { KEY, startHarness, type Harness } from './harness.ts';

describe('the head of a request', () => {
  let h: Harness;
  const used: BudgetName[] = [];
  before(async () => {
    h = await startHarness({ deps: { usedUp: (budget) => used.push(budget) } });
  });
  beforeEach(() => {
    used.length = 0;
  });
  after(async () => {
    await h.stop();
  });

  /** Sends a head and returns the whole answer. */
  async function send(
    fields: string,
    first = 'GET /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n',
  ): Promise<string> {
    const socket = net.connect(h.port, '127.0.0.1');
    let text = '';
    socket.on('data', (piece) => (text += piece.toString())).on('error', () => undefined);
    socket.write(`${first}${fields}\r\n`);
    await once(socket, 'close');
    return text;
  }

  const key = `Authorization: Bearer ${KEY}\r\n`;
  for (const { what, fields, status, budget } of [
    { what: '100 fields, the key last', fields: `${'a1:b\r\n'.repeat(97)}${key}`, status: '200', budget: [] },
    {
      what: '101 fields',
      fields: `${'a1:b\r\n'.repeat(97)}${key}a1:b\r\n`,
      status: '400',
      budget: ['http_head_bytes'],
    },
    { what: '2,500 fields', fields: 'a1:b\r\n'.repeat(2500), status: '400', budget: ['http_head_bytes'] },
    { what: 'over 16 KiB', fields: `a:${'b'.repeat(16_384)}\r\n`, status: '400', budget: ['http_head_bytes'] },
  ] as const)
    it(`of ${what} is answered ${status}`, async () => {
      const answer = await send(fields);
      assert.equal(answer.slice(9, 12), status, answer);
      assert.deepEqual(used, budget);
      if (status === '400')
        assert.match(answer, /"code":"invalid_request"[^]*more than 16 KiB or more than 100 fields/);
    });

  it('is missing in HTTP/0.9, which is answered 400', async () => {
    assert.match(await send('', 'GET /\r\n'), /^HTTP\/1\.1 400 [^]*not a well-formed HTTP\/1\.1 request/);
  });

  it('that is not finished holds few of its fields', async () => {
    const sockets = Array.from({ length: 400 }, () => net.connect(h.port, '127.0.0.1'));
    const before = process.memoryUsage().heapUsed;
    for (const socket of sockets) socket.write(`GET / HTTP/1.1\r\n${'a1:b\r\n'.repeat(2600)}`);
    const answered = await send(key);
    assert.equal(answered.slice(9, 12), '200');
    const held = process.memoryUsage().heapUsed - before;
    for (const socket of sockets) socket.destroy();
    assert.ok(held < 400 * 50 * 1024, `${String(Math.round(held / 1024 / 400))} KiB for each, of both sides`);
  });
});
