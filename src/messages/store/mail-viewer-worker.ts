/** The thread that reads mails for people, one at a time. Started by `mail-viewer.ts`. */
import { parentPort } from 'node:worker_threads';
import { announceReady } from '../../base/threads.ts';
import { readMailView, type MailView } from '../../mail/mail-view.ts';

const answer = (view: MailView | null): void => {
  parentPort?.postMessage(view);
};

parentPort?.on('message', ({ buffer, byteOffset, byteLength }: Uint8Array) => {
  readMailView(Buffer.from(buffer, byteOffset, byteLength)).then(answer, () => {
    answer(null);
  });
});
announceReady();
