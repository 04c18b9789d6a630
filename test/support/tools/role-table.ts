/** The list of roles in docs/dashboard.md, made from src/keys/roles.ts. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { roles } from '../../../src/keys/roles.ts';
import { scopeAllows, scopeNames } from '../../../src/keys/scopes.ts';

const FROM = '<!-- roles: made by `npm run docs` -->';
const TO = '<!-- /roles -->';

/** Returns docs/dashboard.md with the list that it should have. */
export function dashboardPage(): string {
  const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/dashboard.md'), 'utf8');
  const before = page.slice(0, page.indexOf(FROM) + FROM.length);
  const after = page.slice(page.indexOf(TO));
  return `${before}\n\n${roles.map(lineOf).join('\n')}\n\n${after}`;
}

/** Every role reads everything (keys/roles.ts). */
function lineOf({ label, scopes, hasServer }: (typeof roles)[number]): string {
  const all = scopeNames.every((name) => scopeAllows(scopes, name));
  const others = scopes.filter((name) => !name.endsWith(':read')).map((name) => `\`${name}\``);
  const rights = all ? 'every scope' : ['every scope that ends in `:read`', ...others].join(', ');
  const server = hasServer ? '; the server: all accounts, queue, holds, addresses, doctor, accounts, team' : '';
  return `- **${label}**: ${rights}${server}`;
}
