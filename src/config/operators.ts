/** Reads the table of large mail host operators: the shipped config/operators.yaml, or the file that the settings name. */
import { parse } from 'yaml';
import { z } from 'zod';
import { ConfigError, readText, shippedFile } from './load.ts';

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
  const reading = readText(file ?? shippedFile('operators.yaml'));
  if (reading.kind !== 'ok') throw mistake(file, reading.kind === 'bad' ? reading.why : 'no such file');
  try {
    const read = table.safeParse(parse(reading.text));
    if (read.success) return read.data;
    const [issue] = read.error.issues;
    throw mistake(file, `${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`);
  } catch (error) {
    throw error instanceof ConfigError ? error : mistake(file, error instanceof Error ? error.message : String(error));
  }
}

const mistake = (file: string | null, what: string): ConfigError =>
  new ConfigError([
    `delivery.operatorsFile: expected a table of operators in ${file ?? 'config/operators.yaml'}: ${what}`,
  ]);
