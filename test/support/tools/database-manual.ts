/** docs/database.md: the views with their columns from storage/views.ts, the tables from the comments in storage/tables.ts. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { tables } from '../../../src/storage/tables.ts';
import { dialectFor } from '../../../src/storage/sql.ts';
import { views } from '../../../src/storage/views.ts';

interface TableOfFile {
  name: string;
  says: string;
  columns: string[];
}

/** All tables, in the order of storage/tables.ts, with the comments of their declarations in storage/tables/. */
export function documentedTables(): TableOfFile[] {
  const comments = readComments();
  return Object.entries(tables).map(([name, { columns }]) => {
    const inFile = name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    const says = comments.get(inFile);
    if (says === undefined) throw new Error(`the table ${name} is not declared as ${inFile} in storage/tables/`);
    return { name, says, columns: Object.keys(columns) };
  });
}

/** The comment of each exported constant. */
function readComments(): Map<string, string> {
  const folder = path.resolve(import.meta.dirname, '../../../src/storage/tables');
  const declarations = readdirSync(folder).flatMap((file) => {
    const text = readFileSync(path.join(folder, file), 'utf8');
    return [...ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true).statements].filter(ts.isVariableStatement);
  });
  return new Map(
    declarations.map((statement) => [
      statement.declarationList.declarations[0]?.name.getText() ?? '',
      commentOf(statement),
    ]),
  );
}

const commentOf = (node: ts.Node): string =>
  ts
    .getJSDocCommentsAndTags(node)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? '')
    .join(' ')
    .replaceAll(/\s+/g, ' ');

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
  Object.entries(columns(dialectFor('sqlite'))).map(([column, [, means]]) => [`\`${column}\``, means]),
)}
`;

export function databaseManual(): string {
  return `# The database

<!-- Made from src/storage/ by \`npm run docs\`. -->

Everything is in one SQLite file in WAL mode, \`posthorn.db\` in the data folder (\`/var/lib/posthorn\` as a service). It may be read at any time while the server runs, as root or as the server's user:

\`\`\`sh
sqlite3 -readonly data/posthorn.db "SELECT status, COUNT(*) AS n FROM v_recipients GROUP BY status"
sqlite3 -readonly data/posthorn.db "SELECT * FROM v_lanes ORDER BY waiting DESC LIMIT 20"
sqlite3 -readonly -box data/posthorn.db "SELECT at, type, address, status FROM v_events ORDER BY sequence DESC LIMIT 20"
sqlite3 -readonly -json data/posthorn.db "SELECT started_at, mx, smtp_reply FROM v_attempts WHERE message_id = '$MESSAGE_ID'"
sqlite3 data/posthorn.db ".schema v_attempts"
\`\`\`

Never write to it: the server is the only writer, and keeps books of what it wrote. End queries, and do not leave them open: a long transaction makes the write-ahead log grow.

With [PostgreSQL](postgresql.md) the same tables and views are in the database of \`storage.url\`. Give readers a user of their own that may only read:

<!-- not run: needs a PostgreSQL of its own; test/storage/example-queries.test.ts runs the queries on both engines -->

\`\`\`sh
psql posthorn -c "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
psql -U reader posthorn -c "SELECT status, COUNT(*) AS n FROM v_recipients GROUP BY status"
psql -U reader posthorn -c "SELECT * FROM v_lanes ORDER BY waiting DESC LIMIT 20"
psql -U reader posthorn -c "SELECT at, type, address, status FROM v_events ORDER BY sequence DESC LIMIT 20"
psql -U reader posthorn -c "SELECT started_at, mx, smtp_reply FROM v_attempts WHERE message_id = '$MESSAGE_ID'"
psql -U reader posthorn -c "\\d+ v_attempts"
\`\`\`

A view that a new version creates again loses its grants, so grant again after an upgrade. Text is compared byte by byte (\`COLLATE "C"\`).

## Views

Names and columns of the views stay; columns may be added at the end. Times are UTC texts as in the API (\`2026-01-31T09:30:00.000Z\`), which compare in the order of time; flags are 0 or 1. \`ORDER BY id\` is by time too, and quick.

${views.map(viewSection).join('\n')}
## Tables

The views are made of these tables, which may change with any version: build on the views, or on the API. Times are milliseconds since 1970, flags are 0 or 1, columns ending in \`_json\` hold JSON. Ids sort by the time of making. The files in \`src/storage/tables/\` say what each column means; \`.schema\` shows the columns of a running version.

${table(
  ['Table', 'Holds'],
  documentedTables().map(({ name, says }) => [`\`${name}\``, says]),
)}

Besides these there are \`migrations\` and \`migrations_lock\`: which [migrations](operating.md#migrations) were taken. PostgreSQL also has tables of the nodes (\`nodes\`, \`node_beats\`, \`commits\`, \`event_turn\`), and a column \`part\` in tables of sums: the sum is that of all its parts. A database that was [moved](postgresql.md) has \`storage_move\`.
`;
}
