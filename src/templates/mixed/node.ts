/** The nodes of a template's tree. */
import type { Expression } from './expression.ts';
import type { Truth } from './value.ts';

export interface Branch {
  test: Expression;
  truth: Truth;
  /** `includeZero`: whether 0 is true as well. */
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
  /** `{{#name}}`: each, with or if, as the value is. */
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
  | { kind: 'ifchanged'; body: Node[] }
  | { kind: 'step'; name: string; by: 1 | -1 }
  | { kind: 'cycle'; group: Expression | string; values: readonly Expression[] }
  | { kind: 'break' }
  | { kind: 'continue' };

/** `values` is null for an `else`: it is met where no `when` before it was. */
export interface When {
  values: Expression[] | null;
  body: Node[];
}

/** Whether it prints nothing but white space whatever the data: what Liquid calls a blank body. */
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
