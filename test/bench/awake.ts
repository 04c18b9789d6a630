/**
 * Keeps the processors from falling asleep while times are taken. A virtual machine's processor that has nothing to do is given
 * away, and its host takes milliseconds to bring it back: a program that only sleeps 1 ms at a time then wakes up after 7 in one of a
 * hundred, whatever it is. What keeps them busy has the lowest priority there is (SCHED_IDLE) and gives way to everything else.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import os from 'node:os';

/** Returns what lets them sleep again; they may as well when this program ends. Does nothing if there is no `chrt`. */
export function keepAwake(): () => void {
  if (spawnSync('chrt', ['--version'], { stdio: 'ignore' }).error !== undefined) {
    console.log('no chrt here (Debian: util-linux): the processors may sleep, and waking up counts');
    return () => undefined;
  }
  // They end with who started them, however that ends.
  const idle = 'const parent = process.ppid; while (process.ppid === parent);';
  const idlers = os
    .cpus()
    .map((): ChildProcess => spawn('chrt', ['-i', '0', process.execPath, '-e', idle], { stdio: 'ignore' }));
  const stop = (): void => {
    for (const idler of idlers) idler.kill('SIGKILL');
  };
  process.once('exit', stop);
  return stop;
}
