// Writes src/client/types.ts, the types of the client, from docs/openapi.json: an interface for each component, and for each operation
// its parameters, its answer and its path. Enumerations in answers stay open, since the contract says that they may grow. The file is not in the
// repository: `npm run build` makes it.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { format } from 'prettier';
const HEAD = `/**
 * Made from the OpenAPI document by \`npm run build\`: do not edit. An interface for each named schema, and for each operation
 * what it takes and gives. Names are those on the wire.
 */

/** A text of which these values are known today; others may come at any time. */
export type Open<Known extends string> = Known | (string & {});

/** A page of a list. The cursors go into \`after\` and \`before\` of the next request with the same filters. */
export interface Page<Entry> {
  object: 'list';
  data: Entry[];
  has_more: boolean;
  next_cursor: string | null;
  previous_cursor: string | null;
}
`;
const PAGE = 'data has_more next_cursor object previous_cursor';
/** Names that every program has for something else already. */
const renamed = { Error: 'ErrorRecord', Event: 'EventRecord' };
const nameOf = (component) => renamed[component] ?? component;
async function clientTypes(document) {
  const { paths, components } = document;
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const asked = namesIn(
    operations.map(({ requestBody }) => requestBody ?? {}),
    components.schemas,
  );
  const schemas = Object.entries(components.schemas).map(([name, schema]) => declared(name, schema, asked.has(name)));
  const table = operations.map(
    (operation) => `${comment(operation.summary)}${operation.operationId}: {${shape(operation)}};`,
  );
  const text = [
    HEAD,
    ...schemas,
    '/** What each operation takes and gives. */\nexport interface Operations {',
    ...table,
    '}',
    '/** The method and path of each operation. */\nexport const endpoints = {',
    ...Object.entries(paths).flatMap(([at, methods]) =>
      Object.entries(methods).map(([verb, { operationId }]) => `${operationId}: '${verb.toUpperCase()} ${at}',`),
    ),
    '} as const;',
  ];
  return format(text.join('\n'), { parser: 'typescript', printWidth: 120, singleQuote: true });
}
/** The components that lead somewhere from here, however far. */
function namesIn(value, schemas, seen = new Set()) {
  for (const [, name = ''] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
    if (seen.has(name)) continue;
    seen.add(name);
    namesIn(schemas[name], schemas, seen);
  }
  return seen;
}
function declared(name, schema, isAsked) {
  const type = typeOf(schema, isAsked);
  const isPlain = schema['properties'] !== undefined && type.startsWith('{');
  const about = comment(schema['description']);
  return isPlain
    ? `${about}export interface ${nameOf(name)} ${type}\n`
    : `${about}export type ${nameOf(name)} = ${type};\n`;
}
function shape({ parameters = [], requestBody, responses }) {
  const query = parameters.filter((parameter) => parameter.in === 'query');
  const members = query.map(
    ({ name = '', required = false, description, schema = {} }) =>
      `${comment(description)}${member(name, required, typeOf(schema, true), true)}`,
  );
  const body = requestBody?.content['application/json']?.schema;
  const good = Object.entries(responses).flatMap(([status, { content }]) => {
    if (!status.startsWith('2')) return [];
    const schema = content?.['application/json']?.schema;
    return schema === undefined ? ['undefined'] : choicesOf(schema).map((choice) => typeOf(choice, false));
  });
  return [
    ...(query.length === 0 ? [] : [`query: {${members.join('')}};`]),
    ...(body === undefined ? [] : [`body: ${typeOf(body, true)};`]),
    `answer: ${union(good)};`,
  ].join('\n');
}
const choicesOf = (schema) => schema['anyOf'] ?? schema['oneOf'] ?? [schema];
/** Each once; what may be anything needs no further choice. */
const union = (types) => (types.includes('unknown') ? 'unknown' : [...new Set(types)].join(' | '));
/** `isAsked`: the type of what a caller gives, which may leave out and may be read-only; else of what he gets. */
function typeOf(schema, isAsked) {
  const { $ref, const: only, enum: values, type } = schema;
  if (typeof $ref === 'string') return nameOf($ref.replace('#/components/schemas/', ''));
  if (only !== undefined) return JSON.stringify(only);
  if (Array.isArray(values)) return enumeration(values, isAsked);
  const choices = choicesOf(schema);
  if (choices[0] !== schema) return union(choices.map((choice) => typeOf(choice, isAsked)));
  if (Array.isArray(type)) return union(type.map((one) => typeOf({ ...schema, type: one }, isAsked)));
  switch (type) {
    case 'string':
    case 'boolean':
    case 'null':
      return type;
    case 'integer':
    case 'number':
      return 'number';
    case 'array':
      return `${isAsked ? 'readonly ' : ''}(${typeOf(schema['items'] ?? {}, isAsked)})[]`;
    case 'object':
      return objectType(schema, isAsked);
    default:
      return 'unknown';
  }
}
function enumeration(values, isAsked) {
  const literals = values.map((value) => JSON.stringify(value)).join(' | ');
  return isAsked || !values.every((value) => typeof value === 'string') ? literals : `Open<${literals}>`;
}
function objectType(schema, isAsked) {
  const { properties, additionalProperties } = schema;
  if (properties === undefined) {
    const values = typeof additionalProperties === 'object' ? typeOf(additionalProperties, isAsked) : 'unknown';
    return isAsked ? `Readonly<Record<string, ${values}>>` : `Record<string, ${values}>`;
  }
  const { data, ...others } = properties;
  if (
    Object.keys({ data, ...others })
      .sort()
      .join(' ') === PAGE &&
    data !== undefined
  )
    return `Page<${typeOf(data['items'] ?? {}, isAsked)}>`;
  const required = schema['required'] ?? [];
  const members = Object.entries(properties).map(
    ([name, property]) =>
      `${comment(property['description'])}${member(name, required.includes(name), typeOf(property, isAsked), isAsked)}`,
  );
  return `{${members.join('')}}`;
}
/** What a caller leaves out may also be `undefined`: it does not reach the wire. */
function member(name, isRequired, type, isAsked) {
  const safe = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
  return `${safe}${isRequired ? '' : '?'}: ${type}${!isRequired && isAsked && type !== 'unknown' ? ' | undefined' : ''};\n`;
}
const comment = (text) =>
  typeof text === 'string' ? `\n/** ${text.replaceAll('*/', '* /').replaceAll('\n', '\n * ')} */\n` : '';

const root = path.resolve(import.meta.dirname, '../..');
const document = JSON.parse(readFileSync(path.join(root, 'docs/openapi.json'), 'utf8'));
writeFileSync(path.join(root, 'src/client/types.ts'), await clientTypes(document));
