/** Reads the table of large mail host operators: the shipped config/operators.yaml, or the file that the settings name. */
import { z } from 'zod';
import { readDataFile } from './data-file.ts';

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

/** Reads `file`, or the shipped table if it is null. Throws ConfigError with the faults. */
export const readOperators = (file: string | null): OperatorTable =>
  readDataFile(table, { setting: 'delivery.operatorsFile', named: file, shipped: 'operators.yaml' });
