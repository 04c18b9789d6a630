/** Documents that are made from the code. `npm run docs` writes them; test/docs.test.ts holds that none is stale. */
import { configurationManual, exampleSettings } from '../../src/config/manual.ts';
import { databaseManual } from './database-manual.ts';
import { errorManual } from './error-manual.ts';

/** Path from the project's root -> what should stand there. */
export const generatedDocs: readonly (readonly [file: string, make: () => string])[] = [
  ['docs/configuration.md', configurationManual],
  ['config/posthorn.yaml', exampleSettings],
  ['docs/errors.md', errorManual],
  ['docs/database.md', databaseManual],
];
