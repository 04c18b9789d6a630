/** Reads what comes with the program for reading mail: config/bounce-words.yaml and config/feedback-loops.yaml. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { compileWords, type BounceWords, type WordSource } from './bounce-words.ts';
import type { FeedbackLoop } from './feedback-loops.ts';

const [WORDS, LOOPS] = ['config/bounce-words.yaml', 'config/feedback-loops.yaml'];
/** The files that a process has to be allowed to read for this. */
export const PROGRAM_FILES = [WORDS, LOOPS];

/** Reads the words. Throws if the file is missing. It is part of the program: a test checks its form. */
export function readBounceWords(): BounceWords {
  return compileWords(parse(readProgramFile(WORDS)) as WordSource);
}

/** Reads the feedback loops that are believed by their signature. A test checks the file's form. */
export function readFeedbackLoops(): readonly FeedbackLoop[] {
  return (parse(readProgramFile(LOOPS)) as { loops: FeedbackLoop[] }).loops;
}

/** Reads a file from `src/inbound/` and from `dist/src/inbound/` alike. */
function readProgramFile(name: string): string {
  for (const up of ['../..', '../../..']) {
    try {
      return readFileSync(path.resolve(import.meta.dirname, up, name), 'utf8');
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    }
  }
  throw new Error(`${name} was not found`);
}
