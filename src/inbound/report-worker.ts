/** The thread that reads what came to our bounce and complaint addresses, one mail at a time. Started by `report-reader.ts`. */
import { parentPort } from 'node:worker_threads';
import { readReport } from './classify.ts';
import type { Finding } from './finding.ts';
import { readBounceWords } from './words-file.ts';

export interface ReportJob {
  bytes: Uint8Array;
  /** The recipients of the SMTP session, where there was one. */
  envelope: readonly string[];
}

const words = readBounceWords();

parentPort?.on('message', ({ bytes, envelope }: ReportJob) => {
  const finding: Finding = readReport(words, bytes, envelope);
  parentPort?.postMessage(finding);
});
