/** The service manager's end of sd_notify(3): a Unix datagram socket. Perl holds it, which every Debian has: Node.js cannot. */
import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';

export interface NotifySocket {
  readonly file: string;
  /** Everything that was said so far, in order. */
  readonly words: readonly string[];
  /** Resolves when a word that begins like this has been said `times` times. */
  heard(beginning: string, times?: number): Promise<void>;
  close(): Promise<void>;
}

const PROGRAM = `
  use IO::Socket::UNIX; use Socket; $| = 1;
  my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $ARGV[0]) or die "no socket: $!";
  print "open\\n";
  while (defined $s->recv(my $m, 4096)) { print "$_\\n" for split /\\n/, $m; }`;

/** Names the packages that this machine lacks for it; null if it has all of them. */
export function missingForNotify(): string | null {
  const has = (command: string): boolean => spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;
  const missing = [...(has('perl') ? [] : ['perl-base']), ...(has('systemd-notify') ? [] : ['systemd'])];
  return missing.length === 0 ? null : missing.join(' ');
}

export async function openNotifySocket(folder: string): Promise<NotifySocket> {
  const file = path.join(folder, 'notify');
  const perl = spawn('perl', ['-e', PROGRAM, file], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<void>((resolve) => perl.once('close', resolve));
  const words: string[] = [];
  const listeners = new Set<() => void>();
  let rest = '';
  perl.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    // Which only asks the manager to close a file handle when it has read what came before.
    words.push(...lines.filter((line) => line !== 'BARRIER=1'));
    for (const listener of listeners) listener();
  });
  const heard = (beginning: string, times = 1): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (words.filter((word) => word.startsWith(beginning)).length < times) return;
        listeners.delete(look);
        resolve();
      };
      listeners.add(look);
      look();
    });
  await heard('open');
  words.shift();
  return {
    file,
    words,
    heard,
    async close() {
      perl.kill('SIGKILL');
      await ended;
    },
  };
}
