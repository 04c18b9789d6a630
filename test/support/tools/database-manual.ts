/** docs/database.md: the views with their columns from storage/views.ts, the tables from the comments in storage/tables.ts. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { views } from '../../../src/storage/views.ts';

/** A column as its interface has it. */
interface Column {
  name: string;
  type: string;
  says: string;
}

interface TableOfFile {
  name: string;
  says: string;
  columns: Column[];
}

/** The tables of the file in its order. */
export function documentedTables(): TableOfFile[] {
  const file = path.resolve(import.meta.dirname, '../../../src/storage/tables.ts');
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ESNext, true);
  const interfaces = new Map(source.statements.filter(ts.isInterfaceDeclaration).map((one) => [one.name.text, one]));
  return membersOf(interfaces.get('Tables')).map(({ name, type }) => {
    const row = interfaces.get(type);
    if (row === undefined) throw new Error(`the rows of ${name}, ${type}, are not in tables.ts`);
    return { name, says: commentOf(row), columns: membersOf(row) };
  });
}

function membersOf(declaration: ts.InterfaceDeclaration | undefined): Column[] {
  const members: readonly ts.TypeElement[] = declaration?.members ?? [];
  return members.filter(ts.isPropertySignature).map((member) => ({
    name: member.name.getText(),
    type: member.type?.getText() ?? '',
    says: commentOf(member),
  }));
}

const commentOf = (node: ts.Node): string =>
  ts
    .getJSDocCommentsAndTags(node)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? '')
    .join(' ')
    .replaceAll(/\s+/g, ' ');

/** `string | null` is text that may be missing. */
function typeInWords(type: string): string {
  const parts = type.split('|').map((part) => part.trim());
  const kind = parts.includes('number') ? 'integer' : parts.includes('Buffer') ? 'blob' : 'text';
  return parts.includes('null') ? `${kind}, may be null` : kind;
}

const cell = (text: string): string => text.replaceAll('|', '\\|');

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows].map((row) => row.map(cell));
  const widths = head.map((_, at) => Math.max(3, ...all.map((row) => row[at]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((text, at) => text.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  const rule = line(widths.map((width) => '-'.repeat(width)));
  const [first = [], ...rest] = all;
  return [line(first), rule, ...rest.map(line)].join('\n');
}

const viewSection = ({ name, says, columns }: (typeof views)[number]): string => `### ${name}

${says}

${table(
  ['Column', 'Says'],
  Object.entries(columns).map(([column, [, means]]) => [`\`${column}\``, means]),
)}
`;

const tableSection = ({ name, says, columns }: TableOfFile): string => `### Table ${name}

${says === '' ? '' : `${says}\n\n`}${table(
  ['Column', 'Type', 'Says'],
  columns.map(({ name: column, type, says: means }) => [`\`${column}\``, typeInWords(type), means]),
)}
`;

export function databaseManual(): string {
  return `# The database

<!-- Made from src/storage/ by \`npm run docs\`. -->

Everything is in one SQLite file, \`posthorn.db\` in the data folder, in WAL mode. It may be read at any time while the server runs, as root or as the server's user, best with \`sqlite3 -readonly\`:

\`\`\`sh
sqlite3 -readonly data/posthorn.db "SELECT status, COUNT(*) FROM v_recipients GROUP BY status"
sqlite3 -readonly data/posthorn.db "SELECT * FROM v_lanes ORDER BY waiting DESC LIMIT 20"
sqlite3 -readonly -box data/posthorn.db "SELECT at, type, address, status FROM v_events ORDER BY sequence DESC LIMIT 20"
sqlite3 -readonly -json data/posthorn.db "SELECT started_at, mx, smtp_reply FROM v_attempts WHERE message_id = '$MESSAGE_ID'"
sqlite3 data/posthorn.db ".schema v_attempts"
\`\`\`

(Installed as a service, the file is \`/var/lib/posthorn/posthorn.db\`.) Never write to it: the server is the only writer, and keeps books of what it wrote. A reader that stays in one long transaction keeps the WAL from being taken back into the file, which then grows: end queries, do not leave them open.

## Views

Names and columns of the views stay; columns may be added at the end. Times are UTC texts as in the API (\`2026-01-31T09:30:00.000Z\`), which compare in the order of time; flags are 0 or 1. \`ORDER BY id\` is by time too, and quick.

${views.map(viewSection).join('\n')}
## Tables

What the views are made of. Tables may change with any version: build on the views, or on the API. Times are milliseconds since 1970, flags are 0 or 1, columns ending in \`_json\` hold JSON. Ids sort by the time of making.

${documentedTables().map(tableSection).join('\n')}
Besides these there are \`migrations\` and \`migrations_lock\`: which [migrations](operating.md#migrations) were taken.
`;
}
