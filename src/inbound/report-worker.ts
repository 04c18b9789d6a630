/** Reads mail to our bounce and complaint addresses, some at a time, in a confined process. Started by `report-reader.ts`. */
import { answerJobs } from '../base/answer-jobs.ts';
import { systemClock } from '../base/clock.ts';
import type { BounceRule } from '../config/bounce-rule.ts';
import { createJudge, type Judge } from '../messages/delivery/classify.ts';
import { readReport } from './classify.ts';
import type { Finding, Arrival } from './finding.ts';
import { loopClaim } from './feedback-loops.ts';
import { readBounceWords, readFeedbackLoops } from './words-file.ts';

export interface ReportJob {
  mails: readonly { bytes: Uint8Array; arrival: Arrival }[];
  /** The operator's bounce rules, as JSON. */
  rules: string;
}

export interface ReportAnswer {
  finding: Finding;
  /** Milliseconds that reading took. */
  ms: number;
}

const words = readBounceWords();
const loops = readFeedbackLoops();

/** Judges by the rules of the last job: a reload changes them while the thread runs. */
let judging: { rules: string; judge: Judge } | null = null;

function judgeBy(rules: string): Judge {
  if (judging?.rules !== rules) judging = { rules, judge: createJudge(JSON.parse(rules) as BounceRule[]) };
  return judging.judge;
}

/** Reads a mail; looks for the feedback loop of a complaint only. */
function read({ bytes, arrival }: ReportJob['mails'][number], judge: Judge): ReportAnswer {
  const from = systemClock.monotonic();
  const finding = readReport({ words, judge }, bytes, arrival);
  if (finding.kind === 'complaint') {
    const octets = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
    finding.loop = loopClaim(loops, octets, systemClock.now() / 1000);
  }
  return { finding, ms: systemClock.monotonic() - from };
}

answerJobs(({ mails, rules }: ReportJob): ReportAnswer[] => mails.map((mail) => read(mail, judgeBy(rules))));
