/** The health check of the container image, as a process. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { startTestApp } from '../support/harness/app.ts';

const script = path.resolve(import.meta.dirname, '../../src/bin/health.mjs');

async function healthOf(port: number): Promise<number | null> {
  const env = { PATH: process.env['PATH'], POSTHORN_HTTP__PORT: String(port) };
  const [code] = (await once(spawn(process.execPath, [script], { env, stdio: 'ignore' }), 'close')) as [number | null];
  return code;
}

describe('health.mjs', () => {
  it('ends with 0 where a server lives, and with 1 where it is gone', async () => {
    const test = await startTestApp();
    const port = Number(new URL(test.url).port);
    assert.equal(await healthOf(port), 0);
    await test.stop();
    assert.equal(await healthOf(port), 1);
  });
  it('ends with 1 where something else answers', async () => {
    const other = http.createServer((_, response) => response.writeHead(500).end());
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    assert.equal(await healthOf((other.address() as AddressInfo).port), 1);
    await new Promise((resolve) => other.close(resolve));
  });
});
