/**
 * Runs inside a measured program (`node --import`): answers on LOOP_WATCH_PORT with the most CPU time, in ms, that the main thread used
 * between two turns of its event loop since it was asked last. CPU time, because a busy machine stretches every other.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { isMainThread } from 'node:worker_threads';

const cpuMs = () => {
  // Linux brings this figure of a running thread up to date every 1 to 10 ms (CONFIG_HZ), and when the usage of its process is asked for.
  process.cpuUsage();
  return Number(readFileSync(`/proc/self/task/${String(process.pid)}/schedstat`, 'latin1').split(' ')[0]) / 1e6;
};

function watch() {
  let last = cpuMs();
  let longest = 0;
  setInterval(() => {
    const now = cpuMs();
    longest = Math.max(longest, now - last);
    last = now;
  }, 1).unref();

  createServer((_request, answer) => {
    answer.end(String(longest));
    longest = 0;
  })
    .listen(Number(process.env['LOOP_WATCH_PORT']), '127.0.0.1')
    .unref();
}

// Worker threads are started with the same options.
if (isMainThread) watch();
