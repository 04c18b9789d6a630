/** Reads a data file in YAML: one of the folder `config/` that comes with the program, or one that a setting names in its place. */
import { parse } from 'yaml';
import type { z } from 'zod';
import { ConfigError, readText, shippedFile } from './load.ts';

/**
 * Reads `named`, or the shipped file if it is null. Throws ConfigError with a line for each mistake, which begins with `setting` (null for a
 * file that no setting names) and the file.
 */
export function readDataFile<T>(
  form: z.ZodType<T>,
  { setting, named, shipped }: { setting: string | null; named: string | null; shipped: string },
): T {
  const file = named ?? shippedFile(shipped);
  const fault = (...mistakes: string[]): ConfigError =>
    new ConfigError(mistakes.map((one) => [...(setting === null ? [] : [setting]), file, one].join(': ')));
  const reading = readText(file);
  if (reading.kind !== 'ok') throw fault(reading.kind === 'bad' ? reading.why : 'no such file');
  let tree: unknown;
  try {
    tree = parse(reading.text);
  } catch (error) {
    throw fault(error instanceof Error ? (error.message.split('\n')[0] ?? '') : 'unreadable');
  }
  const result = form.safeParse(tree);
  if (result.success) return result.data;
  throw fault(...result.error.issues.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`));
}
