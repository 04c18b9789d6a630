/** Starts the floor (see floor-server.ts) as a process of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { until } from './peers.ts';
import { cpuOf } from './process-cpu.ts';

export interface Floor {
  url: string;
  /** Waits until so many mails in all were delivered. */
  delivered(count: number): Promise<void>;
  /** CPU time used so far, in ms. */
  cpu(): number;
  stop(): Promise<void>;
}

export async function startFloor(receiver: number, sessions: number): Promise<Floor> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-floor-'));
  const program = new URL('floor-server.ts', import.meta.url).pathname;
  const args = [program, String(receiver), String(sessions), path.join(folder, 'floor.db')];
  const child = spawn(process.execPath, ['--import', 'tsx', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    async delivered(count) {
      const isThere = async (): Promise<boolean> => {
        const answer = (await (await fetch(url)).json()) as { delivered: number };
        return answer.delivered >= count;
      };
      await until(isThere, `${String(count)} mails`, 300_000);
    },
    cpu: () => cpuOf(child.pid ?? 0),
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
