// Writes the client's types and methods from docs/openapi.json. src/client/types.ts has an interface for each component, and for each operation
// its parameters, its answer and its path; enumerations in answers stay open, since the contract says that they may grow.
// src/client/operations.ts has a method for each operation, in a class for each first word of a path. Neither file is in the repository:
// `npm run build` makes them.
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
  return pretty(text.join('\n'));
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

const METHODS_HEAD = `/**
 * Made from the OpenAPI document by \`npm run build\`: do not edit. A method for each operation: it takes the parts of the path, the body,
 * the query and the options of the request.
 */
import { at, entriesOf, type Call, type PostOptions, type RequestOptions, type Transport } from './transport.ts';
import type { Operations } from './types.ts';

abstract class Resource {
  protected readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
  }
}
`;
/** Operations whose methods are written by hand, in src/client/mail-client.ts. */
const byHand = new Set(['sendMessage', 'createSuppression', 'testWebhook', 'getOpenapi']);
/** Methods that the rule of `methodOf` would give a worse name. */
const ownNames = {
  explainMessage: 'why',
  deleteMessageContent: 'eraseContent',
  getMessageReport: 'rawReport',
  resendWebhookDelivery: 'resend',
  deleteRecipient: 'erase',
};
const ownNouns = { audit: 'AuditEntr(?:y|ies)', batches: 'Batch(?:es)?', stats: 'Stats', settings: 'Settings' };
const capital = (text) => text[0].toUpperCase() + text.slice(1);
/** In `messages`, `cancelMessage` is `cancel`, `listMessageAttempts` is `attempts` and `rotateMessageKey` is `rotateKey`. */
function methodOf(group, operationId) {
  const noun = ownNouns[group] ?? `${capital(group.replace(/s$/, ''))}s?`;
  const [, verb, rest] = /^([a-z]+)(.*)$/.exec(operationId);
  const tail = rest.replace(new RegExp(`^${noun}`), '');
  const isRead = verb === 'get' || verb === 'list';
  return ownNames[operationId] ?? (isRead && tail !== '' ? tail[0].toLowerCase() + tail.slice(1) : verb + tail);
}
function method(group, verb, at, { operationId, summary, parameters = [], requestBody, responses }) {
  const name = methodOf(group, operationId);
  const memberOf = (id) => id.replaceAll(/_(\w)/g, (_, letter) => letter.toUpperCase());
  const ids = [...at.matchAll(/\{(\w+)\}/g)].map(([, id]) => memberOf(id));
  const numbers = new Set(
    parameters.flatMap((one) =>
      one.in === 'path' && ['integer', 'number'].includes(one.schema?.type) ? [memberOf(one.name)] : [],
    ),
  );
  const hasQuery = parameters.some((one) => one.in === 'query');
  const mustAsk = parameters.some((one) => one.in === 'query' && one.required);
  const contents = Object.entries(responses).flatMap(([status, { content }]) =>
    status[0] === '2' && content ? [content] : [],
  );
  const isRaw = contents.length > 0 && contents.every((content) => content['application/json'] === undefined);
  const of = `Operations['${operationId}']`;
  const answer = isRaw ? 'Uint8Array' : `${of}['answer']`;
  const options = `options?: ${verb === 'post' ? 'PostOptions' : 'RequestOptions'}`;
  const takes = [
    ...ids.map((id) => `${id}: ${numbers.has(id) ? 'number | string' : 'string'}`),
    ...(requestBody ? [`body: ${of}['body']${requestBody.required ? '' : ' = {}'}`] : []),
    ...(hasQuery ? [`query${mustAsk ? '' : '?'}: ${of}['query']`] : []),
    options,
  ];
  let next = 0;
  const where = ids.length === 0 ? `'${at}'` : `at\`${at.replaceAll(/\{\w+\}/g, () => `\${${ids[next++]}}`)}\``;
  const hands = [isRaw && 'isRaw: true', hasQuery && 'query', requestBody && 'body', 'options'].filter(Boolean);
  const isPaged = name === 'list' && hasQuery && parameters.some((one) => one.name === 'after');
  const each = `
    /** Returns all entries, page after page. */
    each(query?: ${of}['query'], options?: RequestOptions): AsyncGenerator<${of}['answer']['data'][number], void, undefined> {
      return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
    }`;
  return `${comment(summary)}${name}(${takes.join(', ')}): Call<${answer}> {
    return this.transport.call('${verb.toUpperCase()}', ${where}, { ${hands.join(', ')} });
  }${isPaged ? each : ''}`;
}
function clientMethods({ paths }) {
  const groups = new Map();
  for (const [at, methods] of Object.entries(paths)) {
    const group = /^\/v1\/(\w+)(?:\/|$)/.exec(at)?.[1];
    if (group === undefined) continue;
    const own = Object.entries(methods).flatMap(([verb, operation]) =>
      byHand.has(operation.operationId) ? [] : [method(group, verb, at, operation)],
    );
    groups.set(group, [...(groups.get(group) ?? []), ...own]);
  }
  const names = [...groups.keys()];
  const classes = [...groups].map(
    ([group, own]) => `export class ${capital(group)} extends Resource {\n${own.join('\n')}\n}\n`,
  );
  const all = `/** One group of methods for each kind of record. */
    export class Groups {
      ${names.map((name) => `readonly ${name}: ${capital(name)};`).join('\n')}
      constructor(transport: Transport) {
        ${names.map((name) => `this.${name} = new ${capital(name)}(transport);`).join('\n')}
      }
    }`;
  return pretty([METHODS_HEAD, ...classes, all].join('\n'));
}

const pretty = (text) => format(text, { parser: 'typescript', printWidth: 120, singleQuote: true });
const root = path.resolve(import.meta.dirname, '../..');
const [source = path.join(root, 'docs/openapi.json'), folder = path.join(root, 'src/client')] = process.argv.slice(2);
const document = JSON.parse(readFileSync(source, 'utf8'));
writeFileSync(path.join(folder, 'types.ts'), await clientTypes(document));
writeFileSync(path.join(folder, 'operations.ts'), await clientMethods(document));
