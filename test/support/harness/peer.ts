/** Helps to start the server of another project for a test or a benchmark: finds whether it is installed, gives it a port, waits until it answers. */
import { spawnSync } from 'node:child_process';
import { connect, createServer } from 'node:net';

/** Which of these programs are not installed. */
export function missing(...programs: string[]): string[] {
  return programs.filter((program) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0);
}

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

export function canConnect(port: number): Promise<boolean> {
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

/** Looks every few milliseconds until `test` holds: other programs ring no notifier. Rejects after `ms`. */
export async function until(test: () => Promise<boolean> | boolean, what: string, ms = 120_000): Promise<void> {
  const end = performance.now() + ms;
  while (!(await test())) {
    if (performance.now() > end) throw new Error(`waited ${String(ms)} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Signals that would end this process without running its exit handlers. */
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Runs `stop` once: when asked, or at the latest when this process ends or is told to. */
export function stoppedWithUs(stop: () => void): () => void {
  const once = (): void => {
    process.off('exit', once);
    for (const signal of SIGNALS) process.off(signal, onSignal);
    stop();
  };
  // The last listener gone, the signal does what it does without us.
  const onSignal = (signal: NodeJS.Signals): void => {
    once();
    process.kill(process.pid, signal);
  };
  process.on('exit', once);
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return once;
}
