/** Makes docs/errors.md from the error catalogue, so that neither can say something else. */
import { catalogue, type ProblemCode } from '../../../src/base/problem.ts';

const INTRODUCTION = `# Errors

<!-- Made from src/base/problem.ts by \`npm run docs\`; do not edit by hand. -->

An error of the API is an object with one member, \`error\`, which has \`code\`, \`message\`, \`field\` (null if no member of the request is at fault) and \`request_id\`. A code always has the same status. Write programs against \`code\`: messages may change, and new codes may come. The command line shows the same codes.

- **4xx**, but for 429, is permanent: correct the request.
- **429 and 5xx** are temporary and carry \`Retry-After\` in seconds: wait that long and send the same request again, with the same \`Idempotency-Key\`.
`;

/** The text of docs/errors.md. */
export function errorManual(): string {
  return [INTRODUCTION, ...statuses().map(statusSection)].join('\n');
}

const codes = Object.keys(catalogue) as ProblemCode[];

const statuses = (): number[] => [...new Set(codes.map((code) => catalogue[code].status))].sort((a, b) => a - b);

function statusSection(status: number): string {
  const own = codes.filter((code) => catalogue[code].status === status);
  return `## ${String(status)}\n\n${own.map(codeSection).join('\n')}`;
}

function codeSection(code: ProblemCode): string {
  const entry = catalogue[code];
  const wait = 'retryAfter' in entry ? ` (\`Retry-After\`: ${String(entry.retryAfter)})` : '';
  return `### \`${code}\`\n\n${entry.cause}\n\n**Cure:** ${entry.cure}${wait}\n`;
}
