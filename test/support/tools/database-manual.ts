/** docs/database.md: the views with their columns from storage/views.ts, the names of the tables from storage/tables.ts. */
import { tables } from '../../../src/storage/tables.ts';
import { dialectFor } from '../../../src/storage/sql.ts';
import { views } from '../../../src/storage/views.ts';

const viewSection = ({ name, says, columns }: (typeof views)[number]): string => `### ${name}

${says}

${Object.entries(columns(dialectFor('sqlite')))
  .map(([column, [, means]]) => `- \`${column}\`: ${means}`)
  .join('\n')}
`;

export function databaseManual(): string {
  return `# The database

<!-- Made from src/storage/ by \`npm run docs\`. -->

Everything is in one SQLite file, \`posthorn.db\` in the data folder. It may be read while the server runs, as root or as the server's user:

\`\`\`sh
sqlite3 -readonly data/posthorn.db "SELECT status, COUNT(*) AS n FROM v_recipients GROUP BY status"
sqlite3 -readonly data/posthorn.db "SELECT * FROM v_lanes ORDER BY waiting DESC LIMIT 20"
sqlite3 -readonly -box data/posthorn.db "SELECT at, type, address, status FROM v_events ORDER BY sequence DESC LIMIT 20"
sqlite3 -readonly -json data/posthorn.db "SELECT started_at, mx, smtp_reply FROM v_attempts WHERE message_id = '$MESSAGE_ID'"
sqlite3 data/posthorn.db ".schema v_attempts"
\`\`\`

Never write to it: the server keeps books of what it wrote. Do not leave transactions open: the write-ahead log grows meanwhile.

With [PostgreSQL](postgresql.md) the same tables, views and queries work in the database of \`storage.url\`. Give readers a user of their own:

<!-- not run: needs a PostgreSQL of its own; test/storage/example-queries.test.ts runs the queries on both engines -->

\`\`\`sh
psql posthorn -c "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
psql -U reader posthorn -c "SELECT * FROM v_lanes ORDER BY waiting DESC LIMIT 20"
psql -U reader posthorn -c "\\d+ v_attempts"
\`\`\`

A view that a new version creates again loses its grants, so grant again after an upgrade. Text is compared byte by byte (\`COLLATE "C"\`).

## Views

Names and columns of the views stay; columns may be added at the end. Times are UTC texts as in the API (\`2026-01-31T09:30:00.000Z\`), flags are 0 or 1. \`ORDER BY id\` is by time, and quick.

${views.map(viewSection).join('\n')}
## Tables

The views are made of these tables, which may change with any version: build on the views, or on the API. Times are milliseconds since 1970, columns ending in \`_json\` hold JSON. The files in \`src/storage/tables/\` say what each table and column means.

${Object.keys(tables)
  .map((name) => `\`${name}\``)
  .join(', ')}.

Besides these there are \`migrations\` and \`migrations_lock\`. PostgreSQL also has tables of the nodes (\`nodes\`, \`node_beats\`, \`commits\`, \`event_turn\`), and a column \`part\` in tables of sums: the sum is that of all its parts. A database that was [moved](postgresql.md) has \`storage_move\`.
`;
}
