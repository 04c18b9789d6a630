/** A Postfix of our own: configuration, queue and log in a temporary folder, one SMTP port on loopback. Needs root. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { canConnect, freePort, stoppedWithUs, until } from './peer.ts';

export interface PostfixOptions {
  hostname: string;
  /** Further lines of main.cf; `dir` is the temporary folder. */
  main: (dir: string) => string;
  /** Where it takes mail; a free port by default. */
  port?: number;
}

export interface Postfix {
  port: number;
  /** Its folder, which goes with it. */
  dir: string;
  /** Its process that starts all others. */
  pid(): number;
  /** Mails it has taken and not yet handed on. */
  queued(): number;
  log(): string;
  stop(): void;
}

export async function startPostfix(options: PostfixOptions): Promise<Postfix> {
  const port = options.port ?? (await freePort());
  const dir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-postfix-'));
  chmodSync(dir, 0o755);
  for (const name of ['queue', 'data', 'conf']) mkdirSync(path.join(dir, name));
  chownSync(path.join(dir, 'data'), userId('postfix'), 0);
  writeFileSync(path.join(dir, 'conf/main.cf'), mainCf(dir, options));
  writeFileSync(path.join(dir, 'conf/master.cf'), masterCf(port));
  const postfix = (verb: string) =>
    spawnSync('postfix', ['-c', path.join(dir, 'conf'), verb], { encoding: 'utf8', timeout: 120_000 });
  const stop = stoppedWithUs(() => {
    postfix('abort');
    rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  });
  const log = (): string => readFileSync(path.join(dir, 'log'), 'utf8');
  try {
    const started = postfix('start');
    if (started.status !== 0) throw new Error(`postfix start: ${started.stderr}`);
    await until(() => canConnect(port), 'postfix');
  } catch (error) {
    stop();
    throw error;
  }
  const pid = (): number => Number(readFileSync(path.join(dir, 'queue/pid/master.pid'), 'utf8'));
  return { port, dir, pid, queued: () => countFiles(path.join(dir, 'queue')), log, stop };
}

function userId(name: string): number {
  return Number(spawnSync('id', ['-u', name]).stdout.toString());
}

/** A mail is one file in one of these folders; `deferred` has folders of its own. */
function countFiles(queue: string): number {
  const inside = (folder: string): number =>
    readdirSync(path.join(queue, folder), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
      .length;
  return ['maildrop', 'incoming', 'active', 'deferred', 'hold'].map(inside).reduce((sum, count) => sum + count, 0);
}

const mainCf = (dir: string, { hostname, main }: PostfixOptions): string => `compatibility_level = 3.6
queue_directory = ${dir}/queue
data_directory = ${dir}/data
mail_owner = postfix
setgid_group = postdrop
myhostname = ${hostname}
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
local_recipient_maps =
maillog_file_prefixes = ${dir}
maillog_file = ${dir}/log
${main(dir)}`;

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
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
`;
