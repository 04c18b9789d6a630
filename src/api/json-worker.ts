/** The thread that reads large JSON bodies: bytes in, value and hash out, one at a time. Started by `json-reader.ts`. */
import { parentPort } from 'node:worker_threads';
import { hashJson, readJson } from './json.ts';

parentPort?.on('message', (bytes: Uint8Array) => {
  const result = readJson(bytes);
  parentPort?.postMessage(result.kind === 'ok' ? { ...result, hash: hashJson(result.value) } : result);
});
