/** Finds the variables that a template reads. */
import type { Expression, Path } from './expression.ts';
import type { Node } from './node.ts';

/** Returns the names of the data that a template reads, without names that it sets itself. */
export function variablesOf(nodes: readonly Node[]): string[] {
  const found = new Set<string>();
  const ownNames = new Set<string>(['forloop', 'tablerowloop']);
  const look = (expression: Expression): void => {
    switch (expression.kind) {
      case 'path':
        if (expression.orNow !== true) path(expression.path);
        return;
      case 'range':
        look(expression.from);
        look(expression.to);
        return;
      case 'call':
        [...expression.args, ...expression.named.values()].forEach(look);
        return;
      case 'filtered':
        look(expression.value);
        for (const { args, named } of expression.filters) [...args, ...named.values()].forEach(look);
        return;
      case 'compare':
      case 'logic':
        look(expression.left);
        look(expression.right);
        return;
      case 'literal':
      case 'nothing':
        return;
    }
  };
  const path = ({ base, name, steps }: Path): void => {
    if (base === 'name' && !ownNames.has(name)) found.add(name);
    const [first] = steps;
    if (base === 'root' && typeof first === 'string') found.add(first);
    for (const step of steps) if (typeof step !== 'string') look(step);
  };
  const walk = (list: readonly Node[]): void => {
    for (const node of list) {
      switch (node.kind) {
        case 'output':
          look(node.value);
          break;
        case 'if':
          for (const { test, body } of node.branches) {
            look(test);
            walk(body);
          }
          walk(node.otherwise);
          break;
        case 'each':
        case 'for':
        case 'tablerow':
          look(node.list);
          if (node.kind === 'each') for (const name of node.params) ownNames.add(name);
          else ownNames.add(node.name);
          walk(node.body);
          if (node.kind !== 'tablerow') walk(node.otherwise);
          break;
        case 'with':
        case 'section':
          look(node.value);
          for (const name of node.params) ownNames.add(name);
          walk(node.body);
          walk(node.otherwise);
          break;
        case 'case':
          look(node.value);
          for (const { values, body } of node.whens) {
            values?.forEach(look);
            walk(body);
          }
          break;
        case 'ifchanged':
          walk(node.body);
          break;
        case 'assign':
          look(node.value);
          ownNames.add(node.name);
          break;
        case 'capture':
          walk(node.body);
          ownNames.add(node.name);
          break;
        case 'step':
          ownNames.add(node.name);
          break;
        case 'cycle':
          node.values.forEach(look);
          break;
        case 'text':
        case 'break':
        case 'continue':
          break;
      }
    }
  };
  walk(nodes);
  return [...found];
}
