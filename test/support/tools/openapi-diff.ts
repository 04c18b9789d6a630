/**
 * What of a change to the OpenAPI document would break a program that works today (spec: breaking changes are never released
 * silently). What callers send may be asked less strictly and not more; what they get may gain members and not lose any.
 * New operations, parameters, members and values in answers are additions.
 */
import type { Json } from '../../../src/api/openapi.ts';

interface Document {
  paths: Record<string, Record<string, Operation>>;
  webhooks?: Record<string, Record<string, Operation>>;
}

interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  schema: Json;
}

interface Body {
  required?: boolean;
  content: Record<string, { schema: Json }>;
}

interface Response {
  $ref?: string;
  headers?: Record<string, Json>;
  content?: Record<string, { schema?: Json }>;
}

interface Operation {
  operationId: string;
  'x-required-scopes'?: string[];
  parameters?: Parameter[];
  requestBody?: Body;
  responses: Record<string, Response>;
}

/** One line for each breaking change, in the order of the document; empty if all changes are additions. */
export function breakingChanges(before: Json, after: Json): string[] {
  return new Comparison(before, after).changes();
}

class Comparison {
  readonly #before: Json;
  readonly #after: Json;

  constructor(before: Json, after: Json) {
    this.#before = before;
    this.#after = after;
  }

  changes(): string[] {
    const [before, after] = [this.#before, this.#after] as unknown as [Document, Document];
    return [
      ...each('', before.paths, after.paths, (path, old, now) =>
        each(path, old, now, (method, one, other) => this.#operation(`${method.toUpperCase()} ${path}`, one, other)),
      ),
      ...each('webhook', before.webhooks ?? {}, after.webhooks ?? {}, (type, old, now) =>
        each(type, old, now, (_, one, other) =>
          this.#told(`webhook ${type}`, one.requestBody?.content, other.requestBody?.content),
        ),
      ),
    ];
  }

  #operation(at: string, old: Operation, now: Operation): string[] {
    const lostScopes = (old['x-required-scopes'] ?? []).filter(
      (scope) => now['x-required-scopes']?.includes(scope) !== true,
    );
    return [
      ...(old.operationId === now.operationId ? [] : [`${at}: is called ${now.operationId} now`]),
      ...lostScopes.map((scope) => `${at}: the scope ${scope} does not open it any more`),
      ...this.#parameters(at, old.parameters ?? [], now.parameters ?? []),
      ...this.#body(at, old.requestBody, now.requestBody),
      ...each(at, only2xx(old.responses), now.responses, (status, one, other) =>
        this.#response(`${at} ${status}`, one, other),
      ),
    ];
  }

  #parameters(at: string, old: Parameter[], now: Parameter[]): string[] {
    const [known, given] = [this.#named(old, this.#before), this.#named(now, this.#after)];
    const demanded = Object.entries(given).filter(
      ([name, { required }]) => required === true && known[name] === undefined,
    );
    return [
      ...demanded.map(([name]) => `${at}: the parameter ${name} is required`),
      ...each(at, known, given, (name, one, other) => [
        ...(other.required === true && one.required !== true ? [`${at}: the parameter ${name} is required`] : []),
        ...this.#asked(`${at} ${name}`, one.schema, other.schema),
      ]),
    ];
  }

  #named(parameters: Parameter[], document: Json): Record<string, Parameter> {
    return Object.fromEntries(
      parameters.map((parameter) => {
        const one = resolved(parameter, document);
        return [`${one.name} (${one.in})`, one];
      }),
    );
  }

  #body(at: string, old: Body | undefined, now: Body | undefined): string[] {
    if (now === undefined) return old === undefined ? [] : [`${at}: takes no body any more`];
    if (old === undefined) return now.required === true ? [`${at}: a body is required`] : [];
    const demanded = now.required === true && old.required !== true ? [`${at}: a body is required`] : [];
    return [
      ...demanded,
      ...each(at, old.content, now.content, (type, one, other) =>
        this.#asked(`${at} ${type}`, one.schema, other.schema),
      ),
    ];
  }

  #response(at: string, old: Response, now: Response): string[] {
    const [one, other] = [resolved(old, this.#before), resolved(now, this.#after)];
    return [
      ...each(at, one.headers ?? {}, other.headers ?? {}, () => []),
      ...this.#told(at, one.content, other.content),
    ];
  }

  #told(at: string, old: Response['content'] = {}, now: Response['content'] = {}): string[] {
    // A stream has no schema.
    return each(at, old, now, (type, { schema: one = {} }, { schema: other = {} }) =>
      this.#answered(`${at} ${type}`, one, other),
    );
  }

  /** Compares inputs: a value that was accepted before must be accepted now. */
  #asked(at: string, old: Json, now: Json, seen: readonly string[] = []): string[] {
    if (isSeen(old, seen)) return [];
    const way = [...seen, refOf(old)];
    const [one, other] = [resolved(old, this.#before), resolved(now, this.#after)];
    if (choicesOf(one) !== null || choicesOf(other) !== null) {
      return (choicesOf(one) ?? [one]).flatMap((choice) => {
        const found = (choicesOf(other) ?? [other]).map((target) => this.#asked(at, choice, target, way));
        return found.some((lines) => lines.length === 0)
          ? []
          : (found.toSorted((a, b) => a.length - b.length)[0] ?? []);
      });
    }
    const [properties, offered] = [propertiesOf(one), propertiesOf(other)];
    const demanded = requiredOf(other).filter((name) => !requiredOf(one).includes(name));
    const isClosed = other['additionalProperties'] === false;
    const gone = isClosed ? Object.keys(properties).filter((name) => offered[name] === undefined) : [];
    return [
      ...lost(valuesOf(one), valuesOf(other)).map((value) => `${at}: ${value} is not taken any more`),
      ...lost(typesOf(one), typesOf(other)).map((type) => `${at}: ${type} is not taken any more`),
      ...tighter(one, other).map((rule) => `${at}: ${rule}`),
      ...demanded.map((name) => `${at}.${name}: is required`),
      ...gone.map((name) => `${at}.${name}: is not taken any more`),
      ...shared(properties, offered).flatMap(([name, a, b]) => this.#asked(`${at}.${name}`, a, b, way)),
      ...inside(one, other).flatMap(([a, b]) => this.#asked(`${at}[]`, a, b, way)),
    ];
  }

  /** Compares answers: a member that was in them before must be in them now, and be of the same kind. */
  #answered(at: string, old: Json, now: Json, seen: readonly string[] = []): string[] {
    if (isSeen(old, seen)) return [];
    const way = [...seen, refOf(old)];
    const [one, other] = [resolved(old, this.#before), resolved(now, this.#after)];
    if (choicesOf(one) !== null || choicesOf(other) !== null) {
      return (choicesOf(other) ?? [other]).flatMap((choice) => {
        const found = (choicesOf(one) ?? [one]).map((expected) => this.#answered(at, expected, choice, way));
        return found.some((lines) => lines.length === 0)
          ? []
          : (found.toSorted((a, b) => a.length - b.length)[0] ?? []);
      });
    }
    const [properties, given] = [propertiesOf(one), propertiesOf(other)];
    const unsure = requiredOf(one).filter((name) => given[name] !== undefined && !requiredOf(other).includes(name));
    return [
      ...(one['const'] === undefined || one['const'] === other['const']
        ? []
        : [`${at}: is not ${JSON.stringify(one['const'])} any more`]),
      ...lost(typesOf(other), typesOf(one)).map((type) => `${at}: can be ${type} now`),
      ...unsure.map((name) => `${at}.${name}: can be absent now`),
      ...Object.keys(properties)
        .filter((name) => given[name] === undefined)
        .map((name) => `${at}.${name}: is gone`),
      ...shared(properties, given).flatMap(([name, a, b]) => this.#answered(`${at}.${name}`, a, b, way)),
      ...inside(one, other).flatMap(([a, b]) => this.#answered(`${at}[]`, a, b, way)),
    ];
  }
}

/** Compares what both have; what only the first has is gone. */
function each<Part>(
  at: string,
  old: Record<string, Part>,
  now: Record<string, Part>,
  compare: (name: string, one: Part, other: Part) => string[],
): string[] {
  return Object.entries(old).flatMap(([name, one]) => {
    const other = now[name];
    return other === undefined ? [`${at} ${name}: is gone`.trim()] : compare(name, one, other);
  });
}

const only2xx = (responses: Record<string, Response>): Record<string, Response> =>
  Object.fromEntries(Object.entries(responses).filter(([status]) => status.startsWith('2')));

function resolved<Part extends { $ref?: unknown }>(part: Part, document: Json): Part {
  if (typeof part.$ref !== 'string') return part;
  const found = part.$ref
    .slice(2)
    .split('/')
    .reduce<unknown>((here, step) => (here as Json | undefined)?.[step], document);
  if (found === undefined) throw new Error(`${part.$ref} leads nowhere`);
  return resolved(found as Part, document);
}

/** A component that contains itself is compared once. */
const refOf = ({ $ref }: Json): string => (typeof $ref === 'string' ? $ref : '');
const isSeen = (schema: Json, seen: readonly string[]): boolean => refOf(schema) !== '' && seen.includes(refOf(schema));
const choicesOf = (schema: Json): Json[] | null => (schema['anyOf'] ?? schema['oneOf'] ?? null) as Json[] | null;
const propertiesOf = (schema: Json): Record<string, Json> => (schema['properties'] ?? {}) as Record<string, Json>;
const requiredOf = (schema: Json): string[] => (schema['required'] ?? []) as string[];

/** Null: any type. A whole number is a number. */
function typesOf({ type }: Json): string[] | null {
  if (type === undefined) return null;
  const types = [type].flat() as string[];
  return types.includes('number') ? [...types, 'integer'] : types;
}

function valuesOf({ enum: values, const: only }: Json): string[] | null {
  if (only !== undefined) return [JSON.stringify(only)];
  return Array.isArray(values) ? values.map((value) => JSON.stringify(value)) : null;
}

/** Returns the values that the first allows and the second does not; null allows all. */
function lost(first: string[] | null, second: string[] | null): string[] {
  if (second === null) return [];
  return first === null ? ['what is not in the list'] : first.filter((one) => !second.includes(one));
}

function tighter(old: Json, now: Json): string[] {
  const most = ['maximum', 'maxLength', 'maxItems', 'maxProperties'].filter(
    (rule) => Number(now[rule] ?? Infinity) < Number(old[rule] ?? Infinity),
  );
  const least = ['minimum', 'minLength', 'minItems', 'minProperties'].filter(
    (rule) => Number(now[rule] ?? -Infinity) > Number(old[rule] ?? -Infinity),
  );
  const form = ['pattern', 'format'].filter((rule) => now[rule] !== undefined && now[rule] !== old[rule]);
  const unique = now['uniqueItems'] === true && old['uniqueItems'] !== true ? ['uniqueItems'] : [];
  return [...most, ...least, ...form, ...unique].map(
    (rule) =>
      `${rule} is ${JSON.stringify(now[rule])}, and was ${old[rule] === undefined ? 'not there' : JSON.stringify(old[rule])}`,
  );
}

function shared(old: Record<string, Json>, now: Record<string, Json>): [string, Json, Json][] {
  return Object.entries(old).flatMap(([name, one]) => {
    const other = now[name];
    return other === undefined ? [] : [[name, one, other]];
  });
}

/** The schemas of entries: of a list, or of an object with free names. */
function inside(old: Json, now: Json): [Json, Json][] {
  return ['items', 'additionalProperties', 'propertyNames'].flatMap((keyword) => {
    const [one, other] = [old[keyword], now[keyword]] as [Json | boolean | undefined, Json | boolean | undefined];
    return typeof one === 'object' && typeof other === 'object' ? [[one, other]] : [];
  });
}
