/**
 * Starts a worker thread from a module of ours, both from the built files and from the TypeScript source:
 * on Node 20 a thread does not inherit the loader that lets tests run the source, so there it is loaded first.
 */
import { parentPort, Worker } from 'node:worker_threads';
import type { WorkerOptions } from 'node:worker_threads';

const fromSource = import.meta.url.endsWith('.ts');

/** `entry` names the source file: `new URL('./json-worker.ts', import.meta.url)`; the built file of the same name is found. */
export function startThread(entry: URL, options: Omit<WorkerOptions, 'eval'> = {}): Worker {
  if (!fromSource) return new Worker(new URL(entry.href.replace(/\.ts$/, '.js')), options);
  const load = `import('tsx/esm/api').then(({ register }) => { register(); return import(${JSON.stringify(entry.href)}); });`;
  return new Worker(load, { ...options, eval: true });
}

/** The message of a thread whose module is loaded: the time for its first job begins then (base/threads.ts). */
export const READY = 'ready';

/** To be called at the end of a thread's module. */
export function announceReady(): void {
  parentPort?.postMessage(READY);
}
