/** The thread that composes large contents, one at a time. `composer.ts` starts it. */
import { parentPort } from 'node:worker_threads';
import { ownMemory } from '../../base/threads.ts';
import { createCompose, type Composed, type StoredContent } from './compose.ts';

export type ComposeAnswer = { kind: 'composed'; composed: Composed } | { kind: 'bad'; why: string };

/** One is enough, since the recipients of one content come one after the other. */
const compose = createCompose({ remembered: 1 });

/** Buffers arrive in a thread as plain byte arrays. */
const asBuffer = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

async function answer(stored: StoredContent): Promise<ComposeAnswer> {
  const attachments = stored.attachments.map((one) => ({ ...one, content: asBuffer(one.content) }));
  const raw = stored.raw === undefined ? {} : { raw: asBuffer(stored.raw) };
  try {
    return { kind: 'composed', composed: await compose({ ...stored, ...raw, attachments }) };
  } catch (error) {
    return { kind: 'bad', why: error instanceof Error ? error.message : String(error) };
  }
}

parentPort?.on('message', (stored: StoredContent) => {
  void answer(stored).then((result) => {
    const memory = result.kind === 'composed' ? ownMemory([result.composed.content.body]) : [];
    parentPort?.postMessage(result, memory);
  });
});
