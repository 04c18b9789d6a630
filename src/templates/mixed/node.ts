/** The nodes of a template's tree. */
import type { Expression } from './expression.ts';
import type { Truth } from './value.ts';

export interface Branch {
  test: Expression;
  truth: Truth;
  /** `includeZero`: if true, 0 counts as true. */
  zero: Expression | null;
  negated: boolean;
  body: Node[];
}

export interface ForOptions {
  limit: Expression | null;
  offset: Expression | 'continue' | null;
  reversed: boolean;
}

export type Node =
  | { kind: 'text'; text: string }
  | { kind: 'output'; value: Expression; raw: boolean; at: number }
  | { kind: 'if'; branches: Branch[]; otherwise: Node[] }
  /** `{{#each}}`. */
  | { kind: 'each'; list: Expression; params: readonly string[]; body: Node[]; otherwise: Node[]; at: number }
  | { kind: 'with'; value: Expression; params: readonly string[]; body: Node[]; otherwise: Node[]; at: number }
  /** `{{#name}}`: each, with or if, depending on the value. */
  | { kind: 'section'; value: Expression; params: readonly string[]; body: Node[]; otherwise: Node[]; at: number }
  | { kind: 'for'; name: string; list: Expression; options: ForOptions; body: Node[]; otherwise: Node[]; at: number }
  | {
      kind: 'tablerow';
      name: string;
      list: Expression;
      options: ForOptions;
      cols: Expression | null;
      body: Node[];
      at: number;
    }
  | { kind: 'case'; value: Expression; whens: When[] }
  | { kind: 'assign'; name: string; value: Expression; at: number }
  | { kind: 'capture'; name: string; body: Node[] }
  | { kind: 'step'; name: string; by: 1 | -1 }
  | { kind: 'cycle'; group: Expression | string; values: readonly Expression[]; at: number }
  | { kind: 'break' }
  | { kind: 'continue' };

/** One branch of a `case`. `values` is null for an `else`, which runs if no `when` before it matched. */
export interface When {
  values: Expression[] | null;
  body: Node[];
}

/** Returns the parts of a node in the order of the source: expressions that it reads, bodies, and names that it sets. */
export function partsOf(node: Node): (Expression | readonly Node[] | string)[] {
  switch (node.kind) {
    case 'output':
      return [node.value];
    case 'if':
      return [...node.branches.flatMap(({ test, body }) => [test, body]), node.otherwise];
    case 'each':
      return [node.list, ...node.params, node.body, node.otherwise];
    case 'with':
    case 'section':
      return [node.value, ...node.params, node.body, node.otherwise];
    case 'for':
      return [node.list, node.name, node.body, node.otherwise];
    case 'tablerow':
      return [node.list, node.name, node.body];
    case 'case':
      return [node.value, ...node.whens.flatMap(({ values, body }) => [...(values ?? []), body])];
    case 'assign':
      return [node.value, node.name];
    case 'capture':
      return [node.body, node.name];
    case 'step':
      return [node.name];
    case 'cycle':
      return [...node.values];
    case 'text':
    case 'break':
    case 'continue':
      return [];
  }
}

/** Returns whether the node prints only white space whatever the data: Liquid's blank body. */
export function isBlank(node: Node): boolean {
  switch (node.kind) {
    case 'text':
      return node.text.trim() === '';
    case 'assign':
    case 'capture':
      return true;
    case 'if':
      return (
        node.branches.every(({ truth, body }) => truth === 'liquid' && body.every(isBlank)) &&
        node.otherwise.every(isBlank)
      );
    case 'for':
      return node.body.every(isBlank) && node.otherwise.every(isBlank);
    case 'case':
      return node.whens.every(({ body }) => body.every(isBlank));
    default:
      return false;
  }
}

export function dropText(body: Node[]): void {
  const rest = body.filter(({ kind }) => kind !== 'text');
  body.splice(0, body.length, ...rest);
}
