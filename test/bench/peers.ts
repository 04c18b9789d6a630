/**
 * The peers beside which we are measured: Postfix's own sink as the receiver of all, and a Postfix that relays from SMTP to
 * SMTP, alone or with OpenDKIM signing as its milter. Each runs from a folder of its own on loopback and is stopped again.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
      .once('error', reject)
      .listen(0, '127.0.0.1', () => {
        const address = server.address();
        server.close(() => {
          if (typeof address === 'object' && address !== null) resolve(address.port);
        });
      });
  });
}

/** Whether the programs are there; benchmarks name what is missing. */
export function missing(...programs: string[]): string[] {
  return programs.filter((program) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0);
}

export interface Sink {
  port: number;
  /** Messages taken so far. */
  count(): number;
  stop(): void;
}

/** `smtp-sink -c`: takes everything, counts it, keeps nothing. */
export async function startSink(): Promise<Sink> {
  const port = await freePort();
  const child = spawn('smtp-sink', ['-u', 'nobody', '-c', `127.0.0.1:${String(port)}`, '2000'], { stdio: ['ignore', 'pipe', 'ignore'] });
  let count = 0;
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => {
    // The counter is one growing line of numbers, each followed by a carriage return.
    text = (text + chunk.toString('latin1')).slice(-200);
    const last = /(\d+)\D*$/.exec(text.slice(0, text.lastIndexOf('\r') + 1));
    if (last?.[1] !== undefined) count = Number(last[1]);
  });
  await until(() => canConnect(port), 'smtp-sink');
  return { port, count: () => count, stop: () => child.kill('SIGKILL') };
}

export interface Peer {
  /** Where it takes mail. */
  port: number;
  stop(): void;
}

/** A Postfix of its own, relaying to `sinkPort`. `sessions` is how many connections it opens to the sink. */
export async function startPostfix(sinkPort: number, sessions: number, milter: string | null = null): Promise<Peer> {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-postfix-'));
  chmodSync(dir, 0o755);
  const port = await freePort();
  const id = (user: string): number => Number(spawnSync('id', ['-u', user]).stdout.toString());
  for (const name of ['queue', 'data']) mkdirSync(path.join(dir, name));
  chownSync(path.join(dir, 'data'), id('postfix'), 0);
  mkdirSync(path.join(dir, 'conf'));
  writeFileSync(path.join(dir, 'conf', 'main.cf'), mainCf(dir, sinkPort, sessions, milter));
  writeFileSync(path.join(dir, 'conf', 'master.cf'), masterCf(port));
  const postfix = (verb: string): void => {
    const result = spawnSync('postfix', ['-c', path.join(dir, 'conf'), verb], { encoding: 'utf8' });
    if (result.status !== 0 && verb === 'start') throw new Error(`postfix ${verb}: ${result.stderr}`);
  };
  postfix('start');
  await until(() => canConnect(port), 'postfix');
  return {
    port,
    stop: () => {
      postfix('abort');
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

const mainCf = (dir: string, sinkPort: number, sessions: number, milter: string | null): string =>
  `compatibility_level = 3.6
queue_directory = ${dir}/queue
data_directory = ${dir}/data
mail_owner = postfix
setgid_group = postdrop
myhostname = peer.bench.test
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
relayhost = [127.0.0.1]:${String(sinkPort)}
alias_maps =
local_recipient_maps =
smtpd_recipient_restrictions = permit_mynetworks, reject
smtp_destination_concurrency_limit = ${String(sessions)}
default_process_limit = ${String(Math.max(100, sessions))}
initial_destination_concurrency = ${String(sessions)}
smtpd_client_connection_count_limit = 0
smtp_tls_security_level = none
maillog_file_prefixes = ${dir}
maillog_file = ${dir}/log
${milter === null ? '' : `smtpd_milters = ${milter}\nmilter_default_action = tempfail\n`}`;

const masterCf = (port: number): string => `127.0.0.1:${String(port)} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
local unix - n n - - local
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
`;

/** OpenDKIM signing with RSA-2048 as a milter on a Unix socket; returns the milter's name for main.cf. */
export async function startOpenDkim(domain: string): Promise<{ milter: string; stop(): void }> {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-opendkim-'));
  chmodSync(dir, 0o755);
  const key = path.join(dir, 'bench.private');
  const made = spawnSync('opendkim-genkey', ['-b', '2048', '-s', 'bench', '-d', domain, '-D', dir], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`opendkim-genkey: ${made.stderr}`);
  const socket = path.join(dir, 'milter.sock');
  const conf = path.join(dir, 'opendkim.conf');
  writeFileSync(conf, `Socket local:${socket}\nDomain ${domain}\nKeyFile ${key}\nSelector bench\nMode s\nCanonicalization relaxed/relaxed\nUMask 000\nRequireSafeKeys no\nInternalHosts 0.0.0.0/0\n`); // prettier-ignore
  const child: ChildProcess = spawn('opendkim', ['-f', '-x', conf], { stdio: 'ignore' });
  await until(() => Promise.resolve(spawnSync('test', ['-S', socket]).status === 0), 'opendkim');
  return {
    milter: `unix:${socket}`,
    stop: () => {
      child.kill('SIGKILL');
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function canConnect(port: number): Promise<boolean> {
  const { connect } = await import('node:net');
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
      .once('connect', () => {
        socket.destroy();
        resolve(true);
      })
      .once('error', () => {
        resolve(false);
      });
  });
}

/** Looks every few milliseconds until `test` holds; benchmarks and scripts may wait, tests use bells. */
export async function until(test: () => Promise<boolean>, what: string, ms = 30_000): Promise<void> {
  const end = performance.now() + ms;
  while (!(await test())) {
    if (performance.now() > end) throw new Error(`waited ${String(ms)} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
