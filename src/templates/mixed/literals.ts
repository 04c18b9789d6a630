/** The text of a template that it prints itself, unlike values. */
import type { Node } from './node.ts';

/**
 * Returns whether a text that the template prints itself matches. What `{% capture %}` takes is not printed there: it is a value,
 * which is made to fit its part like the others.
 */
export function printsLiteral(nodes: readonly Node[], pattern: RegExp): boolean {
  const anyOf = (...bodies: readonly (readonly Node[])[]): boolean =>
    bodies.some((body) => printsLiteral(body, pattern));
  return nodes.some((node) => {
    switch (node.kind) {
      case 'text':
        return pattern.test(node.text);
      case 'if':
        return anyOf(...node.branches.map(({ body }) => body), node.otherwise);
      case 'each':
      case 'for':
      case 'with':
      case 'section':
        return anyOf(node.body, node.otherwise);
      case 'tablerow':
      case 'ifchanged':
        return anyOf(node.body);
      case 'case':
        return anyOf(...node.whens.map(({ body }) => body));
      case 'output':
      case 'assign':
      case 'capture':
      case 'step':
      case 'cycle':
      case 'break':
      case 'continue':
        return false;
    }
  });
}
