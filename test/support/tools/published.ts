/** The OpenAPI document as a program with the settings of the manual publishes it: what documents and types are made from. */
import type { Json } from '../../../src/api/openapi.ts';
import { startTestApp } from '../harness/app.ts';

let read: Promise<Json> | null = null;

export function publishedDocument(): Promise<Json> {
  return (read ??= readDocument());
}

async function readDocument(): Promise<Json> {
  const app = await startTestApp({ settings: { http: { port: 0, publicUrl: 'http://127.0.0.1:8025' } } });
  try {
    return (await app.get('/v1/openapi.json', { key: null })).body;
  } finally {
    await app.stop();
  }
}
