/** The regular expressions in source files, and hostile texts for each. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { importsOf } from './imports.ts';

export interface RegExpLiteral {
  place: string;
  pattern: RegExp;
  isSplit: boolean;
}

/** A file and all of ours that it imports, types apart. */
export function closureOf(entries: readonly string[]): string[] {
  const found = new Set<string>();
  const queue = entries.map((entry) => path.resolve(entry));
  for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
    if (found.has(file)) continue;
    found.add(file);
    for (const target of targetsOf(file)) queue.push(target);
  }
  return [...found].sort();
}

function targetsOf(file: string): string[] {
  return importsOf(file, readFileSync(file, 'utf8'))
    .filter(({ from, typeOnly }) => from.startsWith('.') && from.endsWith('.ts') && !typeOnly)
    .map(({ from }) => path.resolve(path.dirname(file), from));
}

export function literalsIn(file: string, root: string): RegExpLiteral[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
  const literals: RegExpLiteral[] = [];
  const visit = (node: ts.Node): void => {
    if (node.kind === ts.SyntaxKind.RegularExpressionLiteral) {
      const text = node.getText(source);
      const end = text.lastIndexOf('/');
      const line = source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
      const call = node.parent;
      const isSplit =
        ts.isCallExpression(call) &&
        ts.isPropertyAccessExpression(call.expression) &&
        call.expression.name.text === 'split';
      literals.push({
        place: `${path.relative(root, file)}:${String(line)} ${text}`,
        pattern: new RegExp(text.slice(1, end), text.slice(end + 1)),
        isSplit,
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return literals;
}

const ALWAYS = [
  ' ',
  '\t',
  '\n',
  '\r\n',
  'a',
  '0',
  '.',
  '@',
  '<',
  '>',
  '>)',
  '"',
  ';',
  '=',
  '-',
  '[',
  'a ',
  '\n ',
  'a.',
  'a@',
  '<a',
  '5.1',
  '550 ',
  '=?',
  '\\',
  '\\"',
  ': ',
  '(',
  '\u0000',
  'é',
  'ﬃ',
] as const;

/** Texts made of the characters of an expression match it most easily. */
export function fillersFor(pattern: RegExp): string[] {
  const plain = pattern.source
    .replace(/\\[sS]/g, ' ')
    .replace(/\\[dD]/g, '5')
    .replace(/\\[wW]/g, 'a')
    .replace(/\\n/g, '\n')
    .replace(/\\r/g, '\r')
    .replace(/\\t/g, '\t');
  const characters = [...new Set(plain)].slice(0, 60);
  const words = pattern.source.match(/[A-Za-z][A-Za-z@.=: -]{2,}/g)?.slice(0, 6) ?? [];
  const pairs = characters
    .slice(0, 12)
    .flatMap((one, at) => characters.slice(at + 1, at + 4).map((other) => one + other));
  return [...new Set([...ALWAYS, ...characters, ...words, ...pairs])];
}
