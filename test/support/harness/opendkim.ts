/** OpenDKIM as a milter on a Unix socket in a temporary folder: signing beside a benchmark's Postfix, or judging what we signed. */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { stoppedWithUs, until } from './peer.ts';

export interface OpenDkim {
  /** For `smtpd_milters` in main.cf. */
  milter: string;
  pid: number;
  stop(): void;
}

/** Signs everything from `domain` with a fresh RSA-2048 key. */
export function startSigner(domain: string): Promise<OpenDkim> {
  return start((dir) => {
    const made = spawnSync('opendkim-genkey', ['-b', '2048', '-s', 'bench', '-d', domain, '-D', dir], {
      encoding: 'utf8',
    });
    if (made.status !== 0) throw new Error(`opendkim-genkey: ${made.stderr}`);
    return `Mode s
Domain ${domain}
KeyFile ${path.join(dir, 'bench.private')}
Selector bench
Canonicalization relaxed/relaxed
RequireSafeKeys no
InternalHosts 0.0.0.0/0
`;
  });
}

/**
 * Verifies everything and writes what it found into Authentication-Results, in the name of `authservId`. `records` are
 * all TXT records there are, by name: it asks no DNS.
 */
export function startVerifier(authservId: string, records: ReadonlyMap<string, string>): Promise<OpenDkim> {
  return start((dir) => {
    const data = path.join(dir, 'records');
    writeFileSync(data, [...records].map(([name, text]) => `${name} ${text}\n`).join(''));
    // Loopback would count as internal, whose mail is not verified.
    return `Mode v
AuthservID ${authservId}
AlwaysAddARHeader yes
TestDNSData file:${data}
QueryCache yes
InternalHosts 192.0.2.1
`;
  });
}

async function start(configuration: (dir: string) => string): Promise<OpenDkim> {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-opendkim-'));
  chmodSync(dir, 0o755);
  const socket = path.join(dir, 'milter.sock');
  const file = path.join(dir, 'opendkim.conf');
  writeFileSync(file, `Socket local:${socket}\nUMask 000\n${configuration(dir)}`);
  const child = spawn('opendkim', ['-f', '-x', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const stop = stoppedWithUs(() => {
    child.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  });
  try {
    await until(() => {
      if (child.exitCode !== null) throw new Error(`opendkim: ${errors}`);
      return statSync(socket, { throwIfNoEntry: false })?.isSocket() === true;
    }, 'opendkim');
  } catch (error) {
    stop();
    throw error;
  }
  return { milter: `unix:${socket}`, pid: child.pid ?? 0, stop };
}
