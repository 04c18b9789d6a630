import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { portHolder } from '../../src/net/port-holder.ts';

const HEAD =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                       \n';
const line = (local: string, state: string, uid: number, inode: number): string =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  ${String(uid)}        0 ${String(inode)} 1 0000000000000000 100 0 0 10 0\n`;

describe('net/port-holder', () => {
  let root = '';
  beforeEach(() => {
    root = mkdtempSync(path.join(os.tmpdir(), 'ph-proc-'));
    mkdirSync(path.join(root, 'proc/self/net'), { recursive: true });
    mkdirSync(path.join(root, 'etc'));
    writeFileSync(path.join(root, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nDebian-exim:x:101:102::/:/bin/false\n');
  });
  afterEach(() => {
    rmSync(root, { recursive: true });
  });
  const table = (name: string, ...lines: string[]): void => {
    writeFileSync(path.join(root, 'proc/self/net', name), HEAD + lines.join(''));
  };

  it('names the process where it may be seen', async () => {
    table('tcp', line('0100007F:0019', '0A', 101, 4711));
    mkdirSync(path.join(root, 'proc/812/fd'), { recursive: true });
    writeFileSync(path.join(root, 'proc/812/comm'), 'exim4\n');
    symlinkSync('socket:[4711]', path.join(root, 'proc/812/fd/3'));
    assert.equal(await portHolder(25, root), 'exim4 (process 812, user Debian-exim)');
  });
  it('names the user where the process may not be seen', async () => {
    table('tcp', line('00000000:0019', '0A', 0, 4711));
    assert.equal(await portHolder(25, root), 'a program of the user root');
  });
  it('gives the number of a user without a name, and looks at IPv6 too', async () => {
    table('tcp');
    table('tcp6', line('00000000000000000000000000000000:0019', '0A', 12345, 4711));
    assert.equal(await portHolder(25, root), 'a program of the user 12345');
  });
  for (const [why, lines] of [
    ['connections', [line('0100007F:0019', '01', 101, 1)]],
    ['other ports', [line('0100007F:0119', '0A', 101, 1), line('0100007F:1900', '0A', 101, 2)]],
    ['nonsense', ['nonsense\n', '\n']],
  ] as const) {
    it(`does not take ${why} for a listener`, async () => {
      table('tcp', ...lines);
      assert.equal(await portHolder(25, root), null);
    });
  }
  it('knows nothing where the system has no such files', async () => {
    rmSync(path.join(root, 'proc'), { recursive: true });
    assert.equal(await portHolder(25, root), null);
  });
  it('finds this very process', async function () {
    if (!existsSync('/proc/self/net/tcp')) this.skip('this system has no /proc/self/net/tcp');
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    try {
      assert.match((await portHolder(port)) ?? '', new RegExp(`\\(process ${String(process.pid)}, user \\S+\\)$`));
    } finally {
      server.close();
    }
  });
});
