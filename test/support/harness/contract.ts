/**
 * Holds answers against the OpenAPI document: a status, a header, a type or a member that it does not promise, and one that it
 * promises and is not there, are defects. The harnesses ask it about every answer of the suite.
 */
import type { Json } from '../../../src/api/openapi.ts';
import { breachesOf, type Follow } from '../tools/json-schema.ts';

export interface SeenAnswer {
  status: number;
  /** By lower-case name; null if it is absent. */
  header(name: string): string | null;
  text: string;
}

export interface Contract {
  /** Returns the faults of the answer to this request, one line each. Paths outside of /v1 do not belong to the API. */
  breaches(method: string, target: string, answer: SeenAnswer): string[];
}

interface Response {
  headers?: Record<string, Json>;
  content?: Record<string, { schema: Json }>;
}

interface Operation {
  responses: Record<string, Response | { $ref: string }>;
}

/** On every answer, whatever it answers (spec: "every response carries these headers"). */
const ALWAYS = ['x-request-id', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];
/** Answers that do not come from an operation: those to another path or method, and those of the HTTP server itself. */
const OUTSIDE: ReadonlySet<number> = new Set([400, 401, 403, 404, 405, 406, 408, 413, 415, 417, 429, 500, 503]);

export function contractOf(document: Json): Contract {
  const paths = document['paths'] as Record<string, Record<string, Operation>>;
  const follow: Follow = (ref) =>
    ref
      .replace('#/', '')
      .split('/')
      .reduce<unknown>((here, step) => (here as Json)[step], document) as Json;
  const resolved = <Part extends object>(part: Part | { $ref: string }): Part =>
    '$ref' in part ? (follow(part.$ref) as unknown as Part) : part;
  // Words before parameters: /v1/templates/render is not /v1/templates/{id}.
  const patterns = Object.keys(paths)
    .sort((a, b) => a.split('{').length - b.split('{').length)
    .map((path) => ({ path, pattern: new RegExp(`^${path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`) }));

  return {
    breaches(method, target, answer) {
      const path = target.split('?')[0] ?? '';
      if (!path.startsWith('/v1/')) return [];
      const known = patterns.find(({ pattern }) => pattern.test(path));
      const named = method === 'HEAD' ? 'get' : method.toLowerCase();
      const operation = known === undefined ? undefined : paths[known.path]?.[named];
      const where = `${method} ${path} ${answer.status}`;
      return [...common(answer), ...(operation === undefined ? outside(method, answer) : inside(operation))].map(
        (line) => `${where}: ${line}`,
      );

      function inside({ responses }: Operation): string[] {
        const declared = responses[String(answer.status)];
        if (declared === undefined) return ['the status is not declared'];
        const { headers = {}, content } = resolved(declared);
        const missing = Object.entries(headers).filter(
          ([name, header]) => resolved(header)['required'] === true && answer.header(name.toLowerCase()) === null,
        );
        return [
          ...missing.map(([name]) => `the header ${name} is missing`),
          ...(method === 'HEAD' ? [] : bodyBreaches(content, answer, follow)),
        ];
      }

      function outside(how: string, { status }: SeenAnswer): string[] {
        if (how === 'OPTIONS' && status === 204) return [];
        if (!OUTSIDE.has(status)) return ['is answered where no operation is'];
        return how === 'HEAD' ? [] : envelopeBreaches(answer, follow);
      }
    },
  };
}

function common({ header }: SeenAnswer): string[] {
  const missing = ALWAYS.filter((name) => header(name) === null).map((name) => `the header ${name} is missing`);
  return header('x-content-type-options') === 'nosniff' ? missing : [...missing, 'the header nosniff is missing'];
}

const typeOf = (answer: SeenAnswer): string => answer.header('content-type')?.split(';')[0] ?? '(none)';

function bodyBreaches(content: Response['content'], answer: SeenAnswer, follow: Follow): string[] {
  if (content === undefined) return answer.text === '' ? [] : ['there is a body, and none is declared'];
  const type = typeOf(answer);
  const declared = content[type];
  if (declared === undefined) return [`the type ${type} is not declared`];
  if (type !== 'application/json') return [];
  const exact = answer.status >= 400 ? envelopeBreaches(answer, follow) : [];
  return [...exact, ...breachesOf(declared.schema, JSON.parse(answer.text), follow)];
}

/** Answers are open, but the error is not: exactly one member, of exactly four (spec 01 section 0.7). */
function envelopeBreaches(answer: SeenAnswer, follow: Follow): string[] {
  const body = JSON.parse(answer.text) as { error?: Record<string, unknown> };
  const { error = {} } = body;
  const members = Object.keys(error).sort().join();
  const retry = answer.status === 429 || answer.status >= 500;
  return [
    ...breachesOf(follow('#/components/schemas/ErrorEnvelope'), body, follow),
    ...(Object.keys(body).join() === 'error' ? [] : ['the envelope has another member']),
    ...(members === 'code,field,message,request_id' ? [] : [`the error has the members ${members}`]),
    // A replayed answer is byte for byte the first one, whose request it names.
    ...(error['request_id'] === answer.header('x-request-id') || answer.header('idempotency-replayed') !== null
      ? []
      : ['request_id is not X-Request-Id']),
    ...(retry && answer.header('retry-after') === null ? ['the header Retry-After is missing'] : []),
    ...(answer.status === 401 && answer.header('www-authenticate') === null ? ['no WWW-Authenticate'] : []),
  ];
}
