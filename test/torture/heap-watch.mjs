/** Runs inside a measured program (`node --import`): answers on HEAP_WATCH_PORT with the used heap of V8, in bytes. */
import { createServer } from 'node:http';
import { isMainThread } from 'node:worker_threads';

// Worker threads are started with the same options.
if (isMainThread)
  createServer((_request, answer) => {
    answer.end(String(process.memoryUsage().heapUsed));
  })
    .listen(Number(process.env['HEAP_WATCH_PORT']), '127.0.0.1')
    .unref();
