/** Reads the table of large mail host operators: the shipped config/operators.yaml, or the file that the settings name. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { ConfigError } from './load.ts';

const name = z
  .string()
  .max(253)
  .regex(/^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/);
const table = z
  .array(
    z.strictObject({
      name: z.string().regex(/^[a-z][a-z0-9-]{0,30}$/),
      mx: z.array(name).min(1).max(100),
      maxConnections: z.int().min(1).max(1000).optional(),
      messagesPerConnection: z.int().min(1).max(100_000).optional(),
    }),
  )
  .max(1000);

export type OperatorTable = z.output<typeof table>;

/** Reads `file`, or the shipped table if it is null. Throws ConfigError with the fault. */
export function readOperators(file: string | null): OperatorTable {
  const text = file === null ? shipped() : readNamed(file);
  try {
    const read = table.safeParse(parse(text));
    if (read.success) return read.data;
    const [issue] = read.error.issues;
    throw mistake(file, `${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`);
  } catch (error) {
    throw error instanceof ConfigError ? error : mistake(file, error instanceof Error ? error.message : String(error));
  }
}

function readNamed(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw mistake(file, error instanceof Error ? error.message : String(error));
  }
}

/** Reads the shipped table, from `src/config/` and from `dist/src/config/` alike. */
function shipped(): string {
  for (const up of ['../..', '../../..']) {
    try {
      return readFileSync(path.resolve(import.meta.dirname, up, 'config/operators.yaml'), 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  throw new Error('config/operators.yaml was not found');
}

const mistake = (file: string | null, what: string): ConfigError =>
  new ConfigError([
    `delivery.operatorsFile: expected a table of operators in ${file ?? 'config/operators.yaml'}: ${what}`,
  ]);
