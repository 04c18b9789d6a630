/** Runs inside a measured program (`node --import`): answers on HEAP_WATCH_PORT with the used heap of V8, in bytes. */
import { createServer } from 'node:http';

createServer((_request, answer) => {
  answer.end(String(process.memoryUsage().heapUsed));
})
  .listen(Number(process.env['HEAP_WATCH_PORT']), '127.0.0.1')
  .unref();
