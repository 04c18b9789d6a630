/** Documents that are made from the code. `npm run docs` writes them; test/docs.test.ts holds that none is stale. */
import { configurationManual, exampleSettings } from './configuration-manual.ts';
import { conformancePage } from '../../templates/mixed/conformance.ts';
import { securityPage } from './budget-table.ts';
import { commandManual } from './command-manual.ts';
import { dashboardPage } from './role-table.ts';
import { databaseManual } from './database-manual.ts';
import { errorManual } from './error-manual.ts';
import { logManual } from './log-manual.ts';
import { publishedDocument } from './published.ts';

/** The contents that generated files should have, by their paths from the project's root. */
export const generatedDocs: readonly (readonly [file: string, make: () => string | Promise<string>])[] = [
  ['docs/configuration.md', configurationManual],
  ['config/posthorn.yaml', exampleSettings],
  ['docs/commands.md', commandManual],
  ['docs/errors.md', errorManual],
  ['docs/log.md', logManual],
  ['docs/openapi.json', async () => `${JSON.stringify(await publishedDocument(), null, 2)}\n`],
  ['docs/database.md', databaseManual],
  ['docs/templates.md', conformancePage],
  ['docs/security.md', securityPage],
  ['docs/dashboard.md', dashboardPage],
];
