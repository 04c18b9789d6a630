/** The API reference, read from the OpenAPI document: endpoints with parameters, bodies and examples; downloads; the use of the rate limit. */
import { openapiDocument, problemCodes } from '../../api/openapi.ts';
import type { Route } from '../../api/route.ts';
import { catalogue, Problem } from '../../base/problem.ts';
import { DAY_MS, MINUTE_MS } from '../../base/time.ts';
import type { DashboardDeps } from '../deps.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { postmanCollection, type PostmanRequest } from '../postman.ts';
import { resolveReference, schemaLines, type SchemaNode, type Schemas } from '../schema-table.ts';

const WHERE = '/developer/api';
/** The most pages of 100 requests that are counted: more than any plan allows in a minute. */
const MOST_COUNTED_PAGES = 10;
const DEPRECATED_DAYS = 30;

interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: SchemaNode;
}

interface Media {
  schema?: SchemaNode;
  examples?: Readonly<Record<string, { summary: string; value: unknown }>>;
}

interface Operation {
  operationId: string;
  summary: string;
  description: string;
  tags: readonly [string, ...string[]];
  deprecated?: boolean;
  'x-required-scopes'?: readonly string[];
  parameters?: readonly Parameter[];
  requestBody?: { content: Readonly<Record<string, Media>> };
  responses: Readonly<
    Record<string, { $ref?: string; description?: string; content?: Readonly<Record<string, Media>> }>
  >;
}

interface Described {
  method: string;
  path: string;
  operation: Operation;
}

interface Reference {
  operations: readonly Described[];
  tags: readonly { name: string; description: string }[];
  schemas: Schemas;
  parameters: Readonly<Record<string, Parameter>>;
}

type Deps = Pick<DashboardDeps, 'routes' | 'config' | 'version'>;

export function apiPages(deps: Deps): Page[] {
  let made: Reference | null = null;
  // Built at the first visit: it takes 0.1 s.
  const reference = (): Reference => (made ??= readReference(deps));
  return [
    get(WHERE, (visit) => index(deps, reference(), visit)),
    get(`${WHERE}/postman`, () => collection(deps, reference())),
    get(`${WHERE}/:operation`, ({ params }) => details(deps, reference(), params['operation'] ?? '')),
  ];
}

function readReference({ routes, config, version }: Deps): Reference {
  // The document has the form that api/openapi.ts writes.
  const document = openapiDocument(routes, { publicUrl: config.http.publicUrl, version }) as unknown as {
    paths: Record<string, Record<string, Operation>>;
    tags: Reference['tags'];
    components: { schemas: Schemas; parameters: Reference['parameters'] };
  };
  const { paths, tags, components } = document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  return { operations, tags, schemas: components.schemas, parameters: components.parameters };
}

async function index({ routes, config, version }: Deps, { operations, tags }: Reference, visit: Visit): Promise<Shown> {
  const [settings, used, deprecated] = await Promise.all([
    visit.may('settings') ? visit.ask('getSettings') : null,
    usedNow(visit),
    deprecatedInUse(visit, routes),
  ]);
  const limit = settings?.limits.requests_per_minute ?? null;
  return view('api', 'API', {
    tab: 'api',
    base: config.http.publicUrl,
    clientVersion: version,
    plan: settings?.plan ?? visit.account.plan,
    limit,
    used: limit === null ? used : Math.min(used, limit),
    deprecated,
    tags: tags
      .map((tag) => ({
        ...tag,
        operations: operations
          .filter(({ operation }) => operation.tags[0] === tag.name)
          .map(({ method, path, operation }) => ({
            method,
            path,
            id: operation.operationId,
            summary: operation.summary,
            scopes: operation['x-required-scopes'] ?? [],
            isDeprecated: operation.deprecated === true,
          })),
      }))
      .filter(({ operations: own }) => own.length > 0),
    codes: Object.entries(catalogue).map(([code, { status, cause, cure }]) => ({ code, status, cause, cure })),
  });
}

/** Counts the requests with keys in this minute of the clock, as the rate limit does. */
async function usedNow(visit: Visit): Promise<number> {
  const since = new Date(Math.floor(visit.now / MINUTE_MS) * MINUTE_MS).toISOString();
  let count = 0;
  let after: string | null = null;
  for (let page = 0; page < MOST_COUNTED_PAGES; page++) {
    const asked: Record<string, string | null> = { by: 'key', since, limit: '100', after };
    const { data, next_cursor: next } = await visit.ask('listAuditEntries', { query: asked });
    count += data.length;
    if (next === null) break;
    after = next;
  }
  return count;
}

/** Returns the keys of the account that still use deprecated endpoints. */
async function deprecatedInUse(visit: Visit, routes: readonly Route[]): Promise<object[]> {
  const since = new Date(visit.now - DEPRECATED_DAYS * DAY_MS).toISOString();
  const found = await Promise.all(
    routes.map(async ({ method, path, deprecated }) => {
      if (deprecated === undefined) return [];
      const query = { by: 'key', method, endpoint: path, since, limit: '100' };
      const { data } = await visit.ask('listAuditEntries', { query });
      const keys = [...new Map(data.map(({ key_id: id, actor, at }) => [id, { id, actor, at }])).values()];
      return [{ method, path, ...deprecated, keys }];
    }),
  );
  return found.flat();
}

function details({ routes, config }: Deps, { operations, schemas, parameters }: Reference, id: string): Shown {
  const found = operations.find(({ operation }) => operation.operationId === id);
  if (found === undefined) throw new Problem('not_found', 'There is no such endpoint.');
  const { method, path, operation } = found;
  const route = routes.find(({ operationId }) => operationId === id);
  const body = operation.requestBody?.content['application/json'];
  const examples = Object.values(body?.examples ?? {});
  return view('operation', operation.summary, {
    tab: 'api',
    method,
    path,
    operation,
    scopes: operation['x-required-scopes'] ?? [],
    parameters: (operation.parameters ?? []).map((one) => parameterLine(one, parameters, schemas)),
    body: body?.schema === undefined ? [] : schemaLines(body.schema, schemas),
    examples: examples.map(({ summary, value }) => ({
      summary,
      curl: curlOf(method, config.http.publicUrl + path, value),
    })),
    curl: examples.length === 0 ? curlOf(method, config.http.publicUrl + path, undefined) : null,
    answers: Object.entries(operation.responses)
      .filter(([status]) => Number(status) < 400)
      .map(([status, answer]) => answerOf(status, answer, schemas)),
    codes: (route === undefined ? [] : problemCodes(route)).map((code) => ({ code, ...catalogue[code] })),
  });
}

function parameterLine(given: Parameter, shared: Reference['parameters'], schemas: Schemas): object {
  const name = given.$ref?.split('/').at(-1);
  const one = (name === undefined ? undefined : shared[name]) ?? given;
  const [line] = schemaLines({ properties: { [one.name]: one.schema ?? {} } }, schemas);
  return { ...line, place: one.in, required: one.required === true, description: one.description ?? '' };
}

function answerOf(status: string, answer: Operation['responses'][string], schemas: Schemas): object {
  const media = answer.content?.['application/json'];
  const [example] = Object.values(media?.examples ?? {});
  return {
    status,
    description: answer.description ?? '',
    types: Object.keys(answer.content ?? {}),
    lines: media?.schema === undefined ? [] : schemaLines(resolveReference(media.schema, schemas), schemas),
    example: example === undefined ? null : JSON.stringify(example.value, null, 2),
  };
}

function curlOf(method: string, url: string, body: unknown): string {
  const data =
    body === undefined
      ? ''
      : ` \\\n  -H "Content-Type: application/json" \\\n  -d '${JSON.stringify(body).replaceAll("'", String.raw`'\''`)}'`;
  return `curl -sS${method === 'GET' ? '' : ` -X ${method}`} '${url}' \\\n  -H "Authorization: Bearer $POSTHORN_API_KEY"${data}`;
}

function collection({ config }: Deps, { operations, parameters }: Reference): Shown {
  const requests = operations.map(({ method, path, operation }): PostmanRequest => {
    const [example] = Object.values(operation.requestBody?.content['application/json']?.examples ?? {});
    const query = (operation.parameters ?? [])
      .map((one) => parameters[one.$ref?.split('/').at(-1) ?? ''] ?? one)
      .filter((one) => one.in === 'query')
      .map(({ name, description = '' }) => ({ name, description }));
    const body = example === undefined ? null : JSON.stringify(example.value, null, 2);
    return {
      tag: operation.tags[0],
      name: operation.summary,
      description: operation.description,
      method,
      path,
      query,
      body,
    };
  });
  const file = postmanCollection('Posthorn', config.http.publicUrl, requests);
  return {
    kind: 'file',
    body: JSON.stringify(file, null, 2),
    type: 'application/json',
    name: 'posthorn.postman_collection.json',
  };
}
