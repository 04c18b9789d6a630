/** `npm run docs`. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { generatedDocs } from './generated-docs.ts';

for (const [file, make] of generatedDocs)
  writeFileSync(path.resolve(import.meta.dirname, '../../..', file), await make());
