/** Reads config/bounce-words.yaml, which comes with the program. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { compileWords, type BounceWords } from './bounce-words.ts';

const phrases = z.array(z.string().min(2).max(200)).max(1000);
const File = z.strictObject({
  senders: phrases,
  nobodies: phrases,
  senderNames: phrases,
  failure: phrases,
  delay: phrases,
  success: phrases,
  givenUp: phrases,
  autoReplySubjects: phrases,
  autoReplyTexts: phrases,
  challenge: phrases,
  originalBegins: phrases,
  statuses: z.array(z.strictObject({ status: z.string().regex(/^[45]\.\d{1,3}\.\d{1,3}$/), phrases })).max(100),
});

/** The words as the program brings them. Throws where the file is missing or wrong: it is part of the program. */
export function readBounceWords(): BounceWords {
  return compileWords(File.parse(parse(readProgramFile('config/bounce-words.yaml'))));
}

/** From `src/inbound/` and from `dist/src/inbound/` alike. */
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
