/** docs/log.md: the lines of the log that have an event, read from the calls in src/. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';

interface LogLine {
  event: string;
  level: string;
  says: string;
  fields: string[];
}

const source = path.resolve(import.meta.dirname, '../../../src');

/** Returns the lines of the log in the order of their events; an event that several calls write has several. */
function logLines(): LogLine[] {
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const lines = files.sort().flatMap((name) => {
    const text = readFileSync(path.join(source, name), 'utf8');
    if (!text.includes('event')) return [];
    const file = ts.createSourceFile(name, text, ts.ScriptTarget.ESNext, true);
    return nodesOf(file)
      .filter(ts.isCallExpression)
      .flatMap((call) => lineOf(call, file));
  });
  return lines.sort((a, b) => (a.event < b.event ? -1 : a.event > b.event ? 1 : 0));
}

function lineOf(call: ts.CallExpression, file: ts.SourceFile): LogLine[] {
  const level = levelOf(call.expression.getText(file));
  const [first, second] = call.arguments;
  if (level === null || first === undefined || second === undefined) return [];
  const object = valuesOf(first, file).find(ts.isObjectLiteralExpression);
  const event = object?.properties.find((member) => member.name?.getText(file) === 'event');
  const named = event !== undefined && ts.isPropertyAssignment(event) ? event.initializer : event?.name;
  if (object === undefined || named === undefined) return [];
  const events = valuesOf(named, file).flatMap((value) => quoted(value.getText(file)));
  const fields = object.properties.flatMap((member) => member.name?.getText(file) ?? []);
  const says = valuesOf(second, file).map(textOf).join('; or: ');
  return events.map((name) => ({ event: name, level, says, fields: fields.filter((field) => field !== 'event') }));
}

const quoted = (text: string): string[] => [...text.matchAll(/'([a-z]\w*)'/g)].map(([, word = '']) => word);

/** Returns `warn` of `this.log.warn`, `warn or error` of `log[a ? 'warn' : 'error']`, and null of another expression. */
function levelOf(expression: string): string | null {
  const [, one, several] = /\b[lL]og\??(?:\.(debug|info|warn|error)|\[([^\]]+)\])$/.exec(expression) ?? [];
  return one ?? (several === undefined ? null : quoted(several).slice(-2).join(' or '));
}

/** Returns the expressions that a value may be, as far as its file shows it. */
function valuesOf(node: ts.Node, file: ts.SourceFile): ts.Node[] {
  if (ts.isConditionalExpression(node)) return [node.whenTrue, node.whenFalse].flatMap((one) => valuesOf(one, file));
  if (ts.isElementAccessExpression(node)) {
    const [object] = valuesOf(node.expression, file);
    const isObject = object !== undefined && ts.isObjectLiteralExpression(object);
    return isObject ? object.properties.flatMap((one) => (ts.isPropertyAssignment(one) ? [one.initializer] : [])) : [];
  }
  if (!ts.isIdentifier(node)) return [node];
  const all = nodesOf(file);
  const declarations = all
    .filter(ts.isVariableDeclaration)
    .filter((one) => one.name.getText(file) === node.text && one.initializer !== undefined);
  const declared = declarations.findLast((one) => one.pos < node.pos) ?? declarations[0];
  if (declared?.initializer !== undefined) return valuesOf(declared.initializer, file);
  return argumentsFor(node, file).filter((one) => one !== node);
}

/** Returns what the callers of the function around a parameter hand it. */
function argumentsFor(node: ts.Identifier, file: ts.SourceFile): ts.Node[] {
  const made = ts.findAncestor(node, ts.isFunctionDeclaration);
  const at = made?.parameters.findIndex((one) => one.name.getText(file) === node.text) ?? -1;
  const name = made?.name?.text;
  if (at < 0 || name === undefined) return [];
  return nodesOf(file)
    .filter(ts.isCallExpression)
    .filter(({ expression }) => expression.getText(file) === name)
    .flatMap(({ arguments: given }) => given[at] ?? [])
    .flatMap((one) => valuesOf(one, file));
}

function nodesOf(file: ts.SourceFile): ts.Node[] {
  const nodes: ts.Node[] = [];
  const visit = (node: ts.Node): void => {
    nodes.push(node);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return nodes;
}

/** Returns the text of a string, with dots for what it takes in. */
function textOf(value: ts.Node): string {
  if (ts.isStringLiteral(value) || ts.isNoSubstitutionTemplateLiteral(value)) return value.text;
  if (!ts.isTemplateExpression(value)) return '…';
  return [value.head.text, ...value.templateSpans.map(({ literal }) => `…${literal.text}`)].join('');
}

const INTRODUCTION = `# The log

<!-- Made from the calls in src/ by \`npm run docs\`. -->

The server writes one JSON line for each fact to standard output (\`log.format: json\`), or lines for people (\`pretty\`). Under systemd \`journalctl -u posthorn -p err\` shows errors alone. Every line has \`level\`, \`time\` and \`message\`; those below have an \`event\` as well. Write programs against the event: messages may change, and fields may be added.

- Errors of API requests have no event, but \`request_id\` and \`err\`.
- There are no bodies and no keys in the log. The replies of mail hosts (\`text\`) can have addresses. With \`log.addresses: hashed\` an address is written as \`#43b863dd41a5744f@example.net\`, the first 16 digits of its SHA-256 in lower case (\`printf %s ana@example.net | sha256sum\`).
- Who did what is in the [audit log](keys-and-domains.md#audit-log-auditread) of the database.
`;

export function logManual(): string {
  const byEvent = new Map<string, LogLine[]>();
  for (const line of logLines()) byEvent.set(line.event, [...(byEvent.get(line.event) ?? []), line]);
  const unique = (words: readonly string[]): string[] => [...new Set(words)];
  const rows = [...byEvent].map(([event, lines]) => {
    const says = lines[0]?.says ?? '';
    const fields = unique(lines.flatMap((line) => line.fields)).map((field) => `\`${field}\``);
    const text = `- \`${event}\`: ${says}${fields.length === 0 ? '' : `. ${fields.join(' ')}`}`;
    return { level: unique(lines.map((line) => line.level)).join(' or '), text };
  });
  const sections = unique(rows.map(({ level }) => level))
    .sort()
    .map((level) => [`## ${level}`, '', ...rows.flatMap((row) => (row.level === level ? [row.text] : []))].join('\n'));
  return `${INTRODUCTION}\nEach event has its message (one of them if there are several) and its fields:\n\n${sections.join('\n\n')}\n`;
}
