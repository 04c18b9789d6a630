/**
 * `node --import tsx test/support/tools/shape.ts -- FOLDER...` prints the shape of the TypeScript in each folder: files, lines, lengths of files and functions. Lines
 * are those after prettier, with every `prettier-ignore` removed, so that checkouts of different formatting can be compared.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { format, resolveConfig } from 'prettier';
import ts from 'typescript';

const LEFT_OUT = /(?:^|\/)(?:node_modules|dist|coverage|\.git)\//;

const linesOf = (text: string): number => text.split('\n').length - 1;

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

function summary(lengths: readonly number[]): string {
  const sorted = [...lengths].sort((one, other) => one - other);
  return [quantile(sorted, 0.5), quantile(sorted, 0.9), quantile(sorted, 0.99), sorted.at(-1) ?? 0].join(' / ');
}

/** The lines of each function with a body, from its signature to its last brace. */
function functionLengths(source: ts.SourceFile): number[] {
  const lengths: number[] = [];
  const lineAt = (at: number): number => source.getLineAndCharacterOfPosition(at).line;
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined)
      lengths.push(lineAt(node.end) - lineAt(node.getStart(source)) + 1);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return lengths;
}

async function formatted(file: string, text: string): Promise<string> {
  const options = await resolveConfig(path.resolve(import.meta.dirname, '../../../package.json'));
  const bare = text.replaceAll(/\/[/*] prettier-ignore(?: \*\/)?/g, '');
  return format(bare, { ...options, filepath: file });
}

const folders = process.argv.slice(2);
if (folders.length === 0) folders.push('src', 'test');
for (const folder of folders) {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(folder, name))
    .filter((file) => file.endsWith('.ts') && !LEFT_OUT.test(file));
  const fileLines: number[] = [];
  const functions: number[] = [];
  for (const file of files) {
    const text = await formatted(file, readFileSync(file, 'utf8'));
    fileLines.push(linesOf(text));
    functions.push(...functionLengths(ts.createSourceFile(file, text, ts.ScriptTarget.Latest)));
  }
  const total = fileLines.reduce((sum, lines) => sum + lines, 0);
  console.log(
    `${folder}: ${String(files.length)} files, ${String(total)} lines, ${String(functions.length)} functions`,
  );
  console.log(`  lines a file, median / p90 / p99 / longest: ${summary(fileLines)}`);
  console.log(`  lines a function, the same: ${summary(functions)}`);
}
