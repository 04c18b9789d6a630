/** The table of roles in docs/dashboard.md, made from src/keys/roles.ts. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { roles } from '../../../src/keys/roles.ts';
import { scopeAllows, scopeNames, scopes } from '../../../src/keys/scopes.ts';
import { table } from './budget-table.ts';

const FROM = '<!-- roles: made by `npm run docs` -->';
const TO = '<!-- /roles -->';

/** Returns docs/dashboard.md with the table that it should have. */
export function dashboardPage(): string {
  const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/dashboard.md'), 'utf8');
  const before = page.slice(0, page.indexOf(FROM) + FROM.length);
  const after = page.slice(page.indexOf(TO));
  const head = ['Right', 'Allows', ...roles.map(({ label }) => label)];
  const rows = scopeNames.map((name) => [
    `\`${name}\``,
    scopes[name],
    ...roles.map((role) => (scopeAllows(role.scopes, name) ? 'yes' : 'no')),
  ]);
  const server = [
    'the server',
    'see all accounts; queue, holds, addresses, doctor, accounts, team',
    ...roles.map(({ hasServer }) => (hasServer ? 'yes' : 'no')),
  ];
  return `${before}\n\n${table([head, ...rows, server])}\n\n${after}`;
}
