/** Shows JSON schemas of the OpenAPI document as a table: one line for each member, nested members below it. Pure. */
import { numberText } from './words.ts';

export interface SchemaNode {
  $ref?: string;
  type?: string | readonly string[];
  format?: string;
  description?: string;
  enum?: readonly unknown[];
  const?: unknown;
  default?: unknown;
  properties?: Readonly<Record<string, SchemaNode>>;
  required?: readonly string[];
  items?: SchemaNode;
  oneOf?: readonly SchemaNode[];
  anyOf?: readonly SchemaNode[];
  allOf?: readonly SchemaNode[];
  additionalProperties?: boolean | SchemaNode;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
}

export type Schemas = Readonly<Record<string, SchemaNode>>;

export interface SchemaLine {
  /** `to`, `attachments[].content`. */
  name: string;
  type: string;
  limits: string;
  required: boolean;
  description: string;
}

const DEEPEST = 3;
const MOST_LINES = 200;
const MOST_VALUES = 12;

/** Returns the members of the schema and of its nested schemas; of a body with several forms those of all forms. */
export function schemaLines(node: SchemaNode, schemas: Schemas): SchemaLine[] {
  const lines = new Map<string, SchemaLine>();
  walk(resolveReference(node, schemas), schemas, '', 0, lines);
  return [...lines.values()];
}

function walk(node: SchemaNode, schemas: Schemas, under: string, depth: number, lines: Map<string, SchemaLine>): void {
  for (const form of [...(node.oneOf ?? []), ...(node.anyOf ?? []), ...(node.allOf ?? [])])
    walk(resolveReference(form, schemas), schemas, under, depth, lines);
  if (node.items !== undefined && depth === 0)
    walk(resolveReference(node.items, schemas), schemas, `${under}[].`, depth, lines);
  for (const [member, value] of Object.entries(node.properties ?? {})) {
    const name = `${under}${member}`;
    if (lines.has(name) || lines.size >= MOST_LINES) continue;
    const whole = resolveReference(value, schemas);
    const required = node.required?.includes(member) === true;
    lines.set(name, {
      name,
      type: typeOf(whole, schemas),
      limits: limitsOf(whole),
      required,
      description: value.description ?? whole.description ?? '',
    });
    if (depth + 1 >= DEEPEST) continue;
    const inside = whole.items === undefined ? whole : resolveReference(whole.items, schemas);
    walk(inside, schemas, whole.items === undefined ? `${name}.` : `${name}[].`, depth + 1, lines);
  }
}

/** Resolves a reference. */
export function resolveReference(node: SchemaNode, schemas: Schemas): SchemaNode {
  const name = node.$ref?.split('/').at(-1);
  const found = name === undefined ? undefined : schemas[name];
  return found === undefined ? node : resolveReference(found, schemas);
}

function typeOf(node: SchemaNode, schemas: Schemas): string {
  const forms = node.oneOf ?? node.anyOf;
  if (forms !== undefined)
    return [...new Set(forms.map((one) => typeOf(resolveReference(one, schemas), schemas)))].join(' or ');
  if (node.enum !== undefined)
    return node.enum.length > MOST_VALUES ? 'string' : node.enum.map((one) => JSON.stringify(one)).join(', ');
  if (node.const !== undefined) return JSON.stringify(node.const);
  const type = typeof node.type === 'string' ? node.type : (node.type ?? []).join(' or ');
  if (node.items !== undefined) return `array of ${typeOf(resolveReference(node.items, schemas), schemas)}`;
  return node.format === undefined ? type || 'any' : `${type}, ${node.format}`;
}

function limitsOf({ minLength, maxLength, minItems, maxItems, minimum, maximum, default: usual }: SchemaNode): string {
  const isHuge = (n: number | undefined): boolean => n === undefined || Math.abs(n) >= Number.MAX_SAFE_INTEGER;
  const range = (least: number | undefined, most: number | undefined, unit: string): string[] => {
    if (isHuge(most)) return isHuge(least) ? [] : [`at least ${numberText(least ?? 0)}${unit}`];
    return [
      isHuge(least)
        ? `at most ${numberText(most ?? 0)}${unit}`
        : `${numberText(least ?? 0)} to ${numberText(most ?? 0)}${unit}`,
    ];
  };
  return [
    ...range(minLength, maxLength, ' characters'),
    ...range(minItems, maxItems, ' items'),
    ...range(minimum, maximum, ''),
    ...(usual === undefined ? [] : [`usually ${JSON.stringify(usual)}`]),
  ].join(', ');
}
