/**
 * The types of the client (src/client/types.ts), written from the OpenAPI document: an interface for each component, and for
 * each operation what it takes and gives. Enumerations in answers stay open, as the contract says they may grow.
 */
import { format } from 'prettier';
import type { Json } from '../../../src/api/openapi-schemas.ts';

interface Operation {
  operationId: string;
  summary: string;
  parameters?: { name?: string; in?: string; required?: boolean; description?: string; schema?: Json }[];
  requestBody?: { content: Record<string, { schema: Json }> };
  responses: Record<string, { content?: Record<string, { schema: Json }> }>;
}

const HEAD = `/**
 * Made from the OpenAPI document by \`npm run docs\`: do not edit. An interface for each named schema, and for each operation
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
const renamed: Readonly<Record<string, string>> = { Error: 'ErrorRecord', Event: 'EventRecord' };
const nameOf = (component: string): string => renamed[component] ?? component;

export async function clientTypes(document: Json): Promise<string> {
  const { paths, components, info } = document as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, Json> };
    info: { version: string };
  };
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const asked = namesIn(
    operations.map(({ requestBody }) => requestBody ?? {}),
    components.schemas,
  );
  const schemas = Object.entries(components.schemas).map(([name, schema]) => declared(name, schema, asked.has(name)));
  const table = operations.map(
    (operation) => `${comment(operation.summary)}${operation.operationId}: {${shape(operation)}};`,
  );
  const version = `/** Version of the service that this was made with. */\nexport const madeFor = ${JSON.stringify(info.version)};\n`;
  const text = [
    HEAD,
    version,
    ...schemas,
    '/** What each operation takes and gives. */\nexport interface Operations {',
    ...table,
    '}',
  ];
  return format(text.join('\n'), { parser: 'typescript', printWidth: 120, singleQuote: true });
}

/** The components that lead somewhere from here, however far. */
function namesIn(value: unknown, schemas: Readonly<Record<string, Json>>, seen = new Set<string>()): Set<string> {
  for (const [, name = ''] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
    if (seen.has(name)) continue;
    seen.add(name);
    namesIn(schemas[name], schemas, seen);
  }
  return seen;
}

function declared(name: string, schema: Json, isAsked: boolean): string {
  const type = typeOf(schema, isAsked);
  const isPlain = schema['properties'] !== undefined && type.startsWith('{');
  const about = comment(schema['description']);
  return isPlain
    ? `${about}export interface ${nameOf(name)} ${type}\n`
    : `${about}export type ${nameOf(name)} = ${type};\n`;
}

function shape({ parameters = [], requestBody, responses }: Operation): string {
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

const choicesOf = (schema: Json): Json[] => (schema['anyOf'] ?? schema['oneOf'] ?? [schema]) as Json[];
/** Each once; what may be anything needs no further choice. */
const union = (types: readonly string[]): string =>
  types.includes('unknown') ? 'unknown' : [...new Set(types)].join(' | ');

/** `isAsked`: the type of what a caller gives, which may leave out and may be read-only; else of what he gets. */
function typeOf(schema: Json, isAsked: boolean): string {
  const { $ref, const: only, enum: values, type } = schema;
  if (typeof $ref === 'string') return nameOf($ref.replace('#/components/schemas/', ''));
  if (only !== undefined) return JSON.stringify(only);
  if (Array.isArray(values)) return enumeration(values, isAsked);
  const choices = choicesOf(schema);
  if (choices[0] !== schema) return union(choices.map((choice) => typeOf(choice, isAsked)));
  if (Array.isArray(type)) return union(type.map((one) => typeOf({ ...schema, type: one as string }, isAsked)));
  switch (type) {
    case 'string':
    case 'boolean':
    case 'null':
      return type;
    case 'integer':
    case 'number':
      return 'number';
    case 'array':
      return `${isAsked ? 'readonly ' : ''}(${typeOf((schema['items'] ?? {}) as Json, isAsked)})[]`;
    case 'object':
      return objectType(schema, isAsked);
    default:
      return 'unknown';
  }
}

function enumeration(values: readonly unknown[], isAsked: boolean): string {
  const literals = values.map((value) => JSON.stringify(value)).join(' | ');
  return isAsked || !values.every((value) => typeof value === 'string') ? literals : `Open<${literals}>`;
}

function objectType(schema: Json, isAsked: boolean): string {
  const { properties, additionalProperties } = schema;
  if (properties === undefined) {
    const values = typeof additionalProperties === 'object' ? typeOf(additionalProperties as Json, isAsked) : 'unknown';
    return isAsked ? `Readonly<Record<string, ${values}>>` : `Record<string, ${values}>`;
  }
  const { data, ...others } = properties as Record<string, Json>;
  if (
    Object.keys({ data, ...others })
      .sort()
      .join(' ') === PAGE &&
    data !== undefined
  )
    return `Page<${typeOf((data['items'] ?? {}) as Json, isAsked)}>`;
  const required = (schema['required'] ?? []) as string[];
  const members = Object.entries(properties as Record<string, Json>).map(
    ([name, property]) =>
      `${comment(property['description'])}${member(name, required.includes(name), typeOf(property, isAsked), isAsked)}`,
  );
  return `{${members.join('')}}`;
}

/** What a caller leaves out may also be `undefined`: it does not reach the wire. */
function member(name: string, isRequired: boolean, type: string, isAsked: boolean): string {
  const safe = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
  return `${safe}${isRequired ? '' : '?'}: ${type}${!isRequired && isAsked && type !== 'unknown' ? ' | undefined' : ''};\n`;
}

const comment = (text: unknown): string =>
  typeof text === 'string' ? `\n/** ${text.replaceAll('*/', '* /').replaceAll('\n', '\n * ')} */\n` : '';
