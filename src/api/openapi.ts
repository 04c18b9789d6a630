/** The OpenAPI 3.1 document, made from the declared routes and the error catalogue. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { catalogue, type ProblemCode } from '../base/problem.ts';
import { JSON_TYPE } from './answer.ts';
import { isCurrent } from './negotiate.ts';
import { openRoute, type ResponseDeclaration, type Route } from './route.ts';
import { writesShared } from './test-mode.ts';
import { allEventTypes, optInEventTypes, type EventType } from '../events/event.ts';
import { Event, sampleEvent } from './records.ts';

/** The words that do not belong to a single endpoint. */
const introduction = `
Send e-mail with one HTTP request, and follow it until it is delivered.

## Authentication
Every request carries \`Authorization: Bearer <API_KEY>\`. A key opens what its scopes allow (\`x-required-scopes\`: any one of
them is enough); it can be restricted to addresses and sending domains, and can have a lifetime. A test key sees and changes
simulated mail only; operations with \`x-test-keys: refused\` are not for it.

## Errors
Every error is \`{"error": {"code", "message", "field", "request_id"}}\`. A code has one status. 4xx is permanent: correct
the request. 5xx and 429 are temporary: try again after \`Retry-After\`.

## Idempotency
Send an \`Idempotency-Key\` (a UUIDv4) with every POST: a repeated request with the same key gets the first answer again and
does nothing a second time. Keys are kept for 24 hours. A refusal is given again, too, with \`Idempotency-Warning\`: to have the
request tried again, send it with a new key.

## Limits
Requests are counted per account in windows of a minute, by plan; every answer says what is left. A bulk send is one request.

## Versioning
The version is in the path. Endpoints end no earlier than 12 months after notice, which the headers \`Deprecation\`,
\`Sunset\`, \`Link\` and \`Warning\` give on every answer. Answers may gain members, and enumerations values, at any time.
`.trim();

const tagWords: Readonly<Record<string, string>> = {
  messages: 'Sending mail and following it.',
  batches: 'Bulk sends.',
  templates: 'Stored templates.',
  suppressions: 'Addresses that are not mailed.',
  webhooks: 'Endpoints that receive events.',
  events: 'What happened to messages.',
  domains: 'Sending domains.',
  stats: 'How much was sent, and what happened to it.',
  description: 'This document.',
};

const headerWords: Readonly<Record<string, readonly ['string' | 'integer' | 'boolean', string]>> = {
  'X-Request-Id': ['string', 'Identifier of the request, for support and audit.'],
  'X-RateLimit-Limit': ['integer', 'Requests allowed in the window.'],
  'X-RateLimit-Remaining': ['integer', 'Requests left in the window.'],
  'X-RateLimit-Reset': ['integer', 'When the window ends, in Unix seconds.'],
  RateLimit: ['string', 'The same as a structured field: requests left (r) and seconds until the window ends (t).'],
  'RateLimit-Policy': ['string', 'Requests allowed (q) in a window of so many seconds (w).'],
  'Retry-After': ['integer', 'Seconds to wait before trying again.'],
  'WWW-Authenticate': ['string', 'What kind of key is needed (RFC 6750).'],
  'Idempotency-Replayed': ['boolean', 'This is the answer to an earlier request with the same Idempotency-Key.'],
  'Idempotency-First-Answer': ['string', 'When the answer that is given again was first given, RFC 3339.'],
  'Idempotency-Warning': [
    'string',
    'Only on a refusal that is given again: that it is, and how to have the request tried again.',
  ],
  'Idempotency-Mismatch': ['boolean', 'That earlier request had another body.'],
};

const responseWords: Readonly<Record<number, { name: string; description: string }>> = {
  400: { name: 'BadRequest', description: 'The request has a fault: see `code` and `field`.' },
  401: { name: 'Unauthorized', description: 'There is no valid API key in the request.' },
  403: { name: 'Forbidden', description: 'The key does not open this.' },
  404: { name: 'NotFound', description: 'There is no such path or object.' },
  405: { name: 'MethodNotAllowed', description: 'The path does not know this method.' },
  406: { name: 'NotAcceptable', description: 'The Accept header forbids every type there is.' },
  408: { name: 'RequestTimeout', description: 'The request did not arrive in time.' },
  409: { name: 'Conflict', description: 'The request contradicts what is there already.' },
  410: { name: 'Gone', description: 'The endpoint is past its end.' },
  413: { name: 'ContentTooLarge', description: 'The request or the message is too large.' },
  415: { name: 'UnsupportedMediaType', description: 'The body is not JSON in UTF-8, plain or gzip.' },
  417: { name: 'ExpectationFailed', description: 'The Expect header asks for something unknown.' },
  429: { name: 'TooManyRequests', description: 'A limit is used up: wait for `Retry-After`.' },
  500: { name: 'InternalError', description: 'A fault on our side: try again.' },
  503: { name: 'ServiceUnavailable', description: 'Not now: try again after `Retry-After`.' },
  504: { name: 'Timeout', description: 'It took too long: try again.' },
};

/** The route that publishes the document: it needs no key, since it is there to be imported. */
export function openapiRoute(routes: readonly Route[], settings: { publicUrl: string; version: string }): Route {
  const document = { made: null as { bytes: Buffer; etag: string } | null };
  const self: Route = openRoute(
    {
      method: 'GET',
      path: '/v1/openapi.json',
      operationId: 'getOpenapi',
      description:
        'The OpenAPI 3.1 description of this API. It answers without a key; send `If-None-Match` to ask for news only.',
      tag: 'description',
      scope: null,
      responses: {
        200: {
          description: 'The document.',
          schema: z.record(z.string(), z.unknown()),
          headers: { ETag: 'Version of the document.' },
          examples: {
            document: {
              summary: 'Its beginning',
              value: { openapi: '3.1.0', info: { title: 'Posthorn', version: '1.0.0' }, paths: {} },
            },
          },
        },
        304: { description: 'The document has not changed.' },
      },
    },
    (call) => {
      const { bytes, etag } = (document.made ??= written(openapiDocument([...routes, self], settings)));
      const headers = { ETag: etag, 'Cache-Control': 'no-cache' };
      if (isCurrent(call.header('if-none-match'), etag)) return { status: 304, body: null, headers };
      return { status: 200, bytes, type: JSON_TYPE, headers };
    },
  );
  return self;
}

function written(document: Json): { bytes: Buffer; etag: string } {
  const bytes = Buffer.from(JSON.stringify(document));
  // Weak, because the same document goes out in several encodings (RFC 9110 section 8.8.1).
  return { bytes, etag: `W/"${createHash('sha256').update(bytes).digest('base64url').slice(0, 27)}"` };
}

/** Returns the whole document. Routes outside of /v1 do not belong to the API. */
export function openapiDocument(routes: readonly Route[], settings: { publicUrl: string; version: string }): Json {
  const schemas = new Schemas();
  const published = routes.filter((route) => route.path.startsWith('/v1/'));
  const paths: Record<string, Json> = {};
  for (const route of published) (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route, schemas);
  const tags = [...new Set([...published.map((route) => route.tag), 'webhooks'])];
  const used = JSON.stringify(paths);
  const webhooks = webhookSection(schemas);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Posthorn',
      version: settings.version,
      summary: 'Transactional e-mail over HTTP',
      description: introduction,
      license: { name: 'MIT', identifier: 'MIT' },
      contact: { name: 'The operator of this service', url: settings.publicUrl },
    },
    servers: [{ url: settings.publicUrl, description: 'This service' }],
    security: [{ bearerAuth: [] }],
    tags: tags.map((name) => ({ name, description: tagWords[name] ?? `Operations on ${name}.` })),
    paths,
    webhooks,
    components: {
      securitySchemes: {
        bearerAuth: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key, created on the command line or by a key with the scope `key`.',
        },
      },
      headers: headers(),
      parameters: { IdempotencyKey: idempotencyParameter },
      responses: problemResponses(used),
      schemas: { ErrorEnvelope: envelopeSchema, Error: errorSchema, ...schemas.named },
    },
  };
}

function operation(route: Route, schemas: Schemas): Json {
  const parameters = [...pathParameters(route, schemas), ...queryParameters(route, schemas)];
  if (route.method === 'POST') parameters.push({ $ref: '#/components/parameters/IdempotencyKey' });
  return {
    operationId: route.operationId,
    summary: route.summary,
    description: route.description,
    tags: [route.tag],
    'x-required-scopes': route.scope ?? [],
    ...(route.scope === null ? {} : { 'x-test-keys': writesShared(route) ? 'refused' : 'allowed' }),
    ...(route.scope === null ? { security: [] } : {}),
    ...(route.deprecated === undefined ? {} : { deprecated: true }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined ? {} : { requestBody: requestBody(route, route.body, schemas) }),
    responses: responses(route, schemas),
  };
}

function requestBody(route: Route, body: z.ZodType, schemas: Schemas): Json {
  const examples = route.bodyExamples === undefined ? {} : { examples: route.bodyExamples };
  return {
    required: route.isBodyOptional !== true,
    content: { 'application/json': { schema: eitherForm(schemas.of(body, 'input')), ...examples } },
  };
}

/** Named forms of a request exclude each other: each is closed, and lacks a member that another requires. */
function eitherForm(schema: Json): Json {
  const { anyOf, ...rest } = schema;
  const isNamed = Array.isArray(anyOf) && (anyOf as Json[]).every(({ $ref }) => $ref !== undefined);
  return isNamed ? { ...rest, oneOf: anyOf } : schema;
}

function pathParameters(route: Route, schemas: Schemas): Json[] {
  const declared = propertiesOf(route.params, schemas);
  return [...route.path.matchAll(/\{([^}]+)\}/g)].map(([, name = '']) => {
    const { description, ...schema } = declared.find((property) => property.name === name)?.schema ?? {
      type: 'string',
    };
    return { name, in: 'path', required: true, ...(description === undefined ? {} : { description }), schema };
  });
}

/** A list may be repeated ("exploded", which all generators of clients know) or have commas; an object has its keys in brackets. */
function queryParameters(route: Route, schemas: Schemas): Json[] {
  return propertiesOf(route.query, schemas).map(({ name, schema, required }) => {
    const { description, ...rest } = schema;
    const style = schema['type'] === 'array' ? { style: 'form', explode: true } : {};
    const deep = schema['type'] === 'object' ? { style: 'deepObject', explode: true } : {};
    return {
      name,
      in: 'query',
      required,
      ...(description === undefined ? {} : { description }),
      ...style,
      ...deep,
      schema: rest,
    };
  });
}

interface Property {
  name: string;
  schema: Json;
  required: boolean;
}

/** The output of a parameter's schema describes it best (an integer, a list); if it has no type, the input does. */
function propertiesOf(object: z.ZodType | undefined, schemas: Schemas): Property[] {
  if (!(object instanceof z.ZodObject)) return [];
  const shape = object.shape as Record<string, z.ZodType>;
  return Object.entries(shape).map(([name, schema]) => {
    const input = schemas.of(schema, 'input');
    const output = schemas.of(schema, 'output');
    const { default: preset, ...described } = output['type'] === undefined ? input : output;
    const withDefault = preset === undefined ? described : { ...described, default: preset };
    return { name, schema: withDefault, required: !schema.safeParse(undefined).success };
  });
}

function responses(route: Route, schemas: Schemas): Json {
  const all: Json = {};
  for (const [status, declared] of Object.entries(route.responses)) all[status] = response(route, declared, schemas);
  for (const status of problemStatuses(route))
    all[String(status)] ??= { $ref: `#/components/responses/${responseName(status)}` };
  return all;
}

function response(route: Route, declared: ResponseDeclaration, schemas: Schemas): Json {
  const content: Json = {};
  const examples = declared.examples === undefined ? {} : { examples: declared.examples };
  if (declared.schema !== undefined)
    content['application/json'] = { schema: withOpenObjects(schemas.of(declared.schema, 'output')), ...examples };
  // Generators of clients type an answer that may be JSON or text as text: so a stream beside JSON has no schema.
  for (const type of declared.types ?? [])
    content[type] = declared.schema === undefined ? { schema: { type: 'string' }, ...examples } : {};
  const own = Object.entries(declared.headers ?? {}).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ]);
  const replay = route.method === 'POST' ? replayHeaders.filter((name) => name !== 'Idempotency-Warning') : [];
  return {
    description: declared.description,
    headers: { ...headerRefs([...commonHeaders, ...replay]), ...(Object.fromEntries(own) as Json) },
    ...(Object.keys(content).length === 0 ? {} : { content }),
  };
}

const takesBody = (method: string): boolean => method === 'POST' || method === 'PATCH' || method === 'PUT';

/** Returns the statuses of the refusals that follow from what an endpoint takes. */
function problemStatuses(route: Route): number[] {
  const statuses = [
    // 400: an unknown parameter is refused everywhere. 417: Node answers it before the router, for every method.
    ...[400, 406, 417, 429, 500, 503],
    ...(route.scope === null ? [] : [401, 403]),
    ...(route.params === undefined ? [] : [404]),
    ...(route.method === 'POST' ? [409] : []),
    // A body that is sent is read even if none is expected.
    ...(takesBody(route.method) ? [408, 413, 415, 504] : []),
    ...(route.deprecated === undefined ? [] : [410]),
    ...problemCodes(route).map((code) => catalogue[code].status),
  ];
  return [...new Set(statuses)].sort((a, b) => a - b);
}

/** Headers of a refusal that is repeated for the same key. */
const replayHeaders = [
  'Idempotency-Replayed',
  'Idempotency-First-Answer',
  'Idempotency-Warning',
  'Idempotency-Mismatch',
];

const commonHeaders = [
  'X-Request-Id',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'RateLimit',
  'RateLimit-Policy',
];

const headerRefs = (names: readonly string[]): Json =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** Headers about a repeated request are present only then; the others always. */
function headers(): Json {
  return Object.fromEntries(
    Object.entries(headerWords).map(([name, [type, description]]) => [
      name,
      { description, ...(name.startsWith('Idempotency-') ? {} : { required: true }), schema: { type } },
    ]),
  );
}

const idempotencyParameter = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Makes a repeated request harmless: the first answer is given again. 1 to 255 visible ASCII characters; a UUIDv4 does best.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};

const codes = Object.keys(catalogue) as ProblemCode[];

const errorSchema = {
  type: 'object',
  description:
    'What went wrong, for programs (`code`, `field`), for people (`message`) and for support (`request_id`).',
  required: ['code', 'message', 'field', 'request_id'],
  properties: {
    code: { type: 'string', enum: codes, description: 'Machine-readable error code.' },
    message: { type: 'string', description: 'Human-readable explanation.' },
    field: { type: ['string', 'null'], description: 'The offending request field, if one applies.' },
    request_id: {
      type: 'string',
      pattern: '^req_[0-7][0-9a-hjkmnp-tv-z]{25}$',
      description: 'Identifier of the request, for support and audit.',
    },
  },
};

const envelopeSchema = {
  type: 'object',
  description: 'The body of every answer that is an error.',
  required: ['error'],
  properties: { error: { $ref: '#/components/schemas/Error' } },
};

const responseName = (status: number): string => responseWords[status]?.name ?? `Problem${status}`;

/** Returns the refusals that an operation names: others, such as 405, occur only if there is no operation. */
function problemResponses(used: string): Json {
  const all = [...new Set(codes.map((code) => catalogue[code].status as number))];
  const statuses = all.filter((status) => used.includes(`"#/components/responses/${responseName(status)}"`));
  return Object.fromEntries(statuses.map((status) => [responseName(status), problemResponse(status)]));
}

function problemResponse(status: number): Json {
  const own = codes.filter((code) => catalogue[code].status === status);
  const extra = [
    ...(status === 401 ? ['WWW-Authenticate'] : []),
    ...(status === 429 || status >= 500 ? ['Retry-After'] : replayHeaders),
  ];
  return {
    description: responseWords[status]?.description ?? 'The request was refused.',
    headers: headerRefs([...commonHeaders, ...extra]),
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/ErrorEnvelope' },
        examples: Object.fromEntries(
          own.map((code) => [code, { summary: catalogue[code].cause, value: example(code) }]),
        ),
      },
    },
  };
}

function example(code: ProblemCode): Json {
  return { error: { code, message: catalogue[code].cause, field: null, request_id: 'req_01jzabcdefghjkmnpqrstvwxyz' } };
}

/** Returns the codes that an operation can refuse with: by the schemas of its query and its body, and as it declares. */
function problemCodes({ query, body, problems = [] }: Pick<Route, 'query' | 'body' | 'problems'>): ProblemCode[] {
  return [...new Set([...queryCodes(query), ...bodyCodes(body), ...problems])];
}

function queryCodes(query: z.ZodType | undefined): ProblemCode[] {
  if (!(query instanceof z.ZodObject)) return [];
  const isList = 'after' in query.shape;
  return isList ? ['invalid_parameter', 'invalid_cursor', 'mutually_exclusive_fields'] : ['invalid_parameter'];
}

function bodyCodes(body: z.ZodType | undefined): ProblemCode[] {
  if (body === undefined) return [];
  const schemas = new Schemas();
  const schema = JSON.stringify([schemas.of(body, 'input'), schemas.named]);
  return [
    ...(schema.includes('"required":') ? (['missing_field'] as const) : []),
    'unknown_field',
    'invalid_type',
    'invalid_field',
    ...(schema.includes('"maxLength":') ? (['field_too_long'] as const) : []),
    ...(schema.includes('"maxItems":') ? (['too_many_items'] as const) : []),
  ];
}

const header = (name: string, description: string, example: string): Json => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
  example,
});

/** Standard Webhooks 1.0. */
const signatureHeaders = [
  header(
    'webhook-id',
    'The id of the event, the same at every try: drop what you have seen.',
    'evt_01jz5w8q3hf2m9d4x6k7c1b0na',
  ),
  header(
    'webhook-timestamp',
    'When this try was made, in Unix seconds: refuse what is older than five minutes.',
    '1769851802',
  ),
  header(
    'webhook-signature',
    '`v1,` and the base64 HMAC-SHA256 of `webhook-id.webhook-timestamp.body` under the secret of the endpoint; several, separated by spaces, while the secret is being rotated.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ),
];

const told: Readonly<Record<EventType, string>> = {
  sent: 'Delivery has begun',
  delivered: 'The mail host of the recipient has taken it',
  opened: 'It was opened',
  clicked: 'A link in it was followed',
  bounced: 'It cannot be delivered',
  complained: 'The recipient has complained about it',
  deferred: 'A try has failed; there will be another',
  suppressed: 'It was not sent, because the address is on the suppression list',
  failed: 'It was not sent, by a fault on our side',
  unsubscribed: 'The recipient wants no more mail of this stream',
  received: 'A mail came to a domain that receives',
};

/** One entry for each kind of event, by its name. */
function webhookSection(schemas: Schemas): Json {
  // Inside another schema the record is a reference, and becomes a component.
  const { items } = schemas.of(z.array(Event), 'output');
  return Object.fromEntries(allEventTypes.map((type) => [type, { post: callOf(type, items as Json) }]));
}

function callOf(type: EventType, event: Json): Json {
  const summary = told[type];
  const isOptIn = (optInEventTypes as readonly EventType[]).includes(type);
  const when = isOptIn
    ? 'Only for endpoints that name this kind.'
    : 'Every endpoint gets this kind, unless it names others.';
  return {
    operationId: `on${type.charAt(0).toUpperCase()}${type.slice(1)}`,
    summary,
    description: `${when} Answer with any 2xx within 15 seconds. Anything else is tried again, ten times over about three days; 410 ends the calls to this endpoint. Calls may come twice and in another order.`,
    tags: ['webhooks'],
    security: [],
    parameters: signatureHeaders,
    requestBody: {
      required: true,
      description: 'The event, byte for byte as `GET /v1/events` shows it; `received` with text and html besides.',
      content: {
        'application/json': {
          schema: event,
          examples: { [type]: { summary, value: sampleEvent(type, { engagement: false }) } },
        },
      },
    },
    responses: {
      '2XX': { description: 'The event is taken.' },
      410: { description: 'The endpoint is gone: it is disabled.' },
    },
  };
}

/** Makes the JSON Schemas of the OpenAPI document from zod schemas: those with an id become components, the others stay where they are used. */
export type Json = Record<string, unknown>;

export class Schemas {
  readonly named: Record<string, Json> = {};

  of(schema: z.ZodType, io: 'input' | 'output'): Json {
    const made = z.toJSONSchema(schema, { target: 'draft-2020-12', io, unrepresentable: 'any' }) as Json;
    const { $schema: _, $defs, ...own } = made;
    for (const [name, definition] of Object.entries(($defs ?? {}) as Record<string, Json>)) {
      const { id: __, ...rest } = adapted(definition) as Json;
      this.named[name] ??= io === 'output' ? withOpenObjects(rest) : rest;
    }
    return adapted(own) as Json;
  }
}

/** Opens the objects of answers: clients must accept members that are added later. */
export function withOpenObjects(schema: Json): Json {
  return mapped(schema, (object) => {
    if (object['additionalProperties'] !== false) return object;
    const { additionalProperties: _, ...rest } = object;
    return rest;
  }) as Json;
}

/** Points references to the components, and writes null into the type if it is allowed. */
function adapted(schema: unknown): unknown {
  return mapped(schema, (object) => {
    const { $ref } = object;
    if (typeof $ref === 'string') return { ...object, $ref: $ref.replace('#/$defs/', '#/components/schemas/') };
    return withNullType(withoutSafeBounds(object));
  });
}

/** Removes the bounds of safe integers, which zod adds to every one: they would hide the bounds that are real rules. */
function withoutSafeBounds(object: Json): Json {
  const { minimum, maximum, ...rest } = object;
  if (object['type'] !== 'integer') return object;
  return {
    ...rest,
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum }),
  };
}

/** `anyOf: [X, null]` as `type: [x, null]`, the form that readers and generators of clients know best. */
function withNullType(object: Json): Json {
  const { anyOf, ...rest } = object;
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return object;
  const [value, none] = anyOf as Json[];
  const isPlain = typeof value?.['type'] === 'string' && value['enum'] === undefined && value['const'] === undefined;
  if (!isPlain || none?.['type'] !== 'null') return object;
  return { ...value, ...rest, type: [value['type'], 'null'] };
}

/** Changes each object in the tree, the inner ones first. */
function mapped(value: unknown, change: (object: Json) => Json): unknown {
  if (Array.isArray(value)) return value.map((item) => mapped(item, change));
  if (typeof value !== 'object' || value === null) return value;
  return change(Object.fromEntries(Object.entries(value).map(([name, member]) => [name, mapped(member, change)])));
}
