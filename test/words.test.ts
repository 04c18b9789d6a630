/**
 * Comments, documents, problems and log lines are plain sentences (CONTRIBUTING, "Words"). This test holds what a pattern can find.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { docBlocks } from './support/tools/doc-blocks.ts';

const root = path.resolve(import.meta.dirname, '..');

/** Folders and files whose words are held, relative to the repository. */
const held: readonly string[] = ['.github', 'CHANGELOG.md', 'README.md', 'docs', 'migrations', 'src', 'test'];

interface Pattern {
  readonly name: string;
  readonly pattern: RegExp;
  /** Text that the pattern finds, so that a pattern that finds nothing fails. */
  readonly bad: string;
  /** Similar text that it must leave alone. */
  readonly good: string;
}

/** These are about the beginning or the end of a comment; the other patterns apply to all text. */
const ofComments: readonly Pattern[] = [
  {
    name: 'opens in the middle of a sentence',
    pattern: /^(?:And|But|Or) /,
    bad: 'And new events are tried.',
    good: 'Order of new events.',
  },
  { name: 'ends in a comma', pattern: /,\s*$/, bad: 'The lane,', good: 'The lane, which rests' },
  {
    name: 'opens with What, Who, Whose or Whether instead of a noun or a verb',
    pattern: /^(?:What|Who|Whose|Whether) /,
    bad: 'Whether the lane rests.',
    good: 'Returns whether the lane rests.',
  },
];
/** A condition: "where" is for places. */
const WHERE_FOR_IF: Pattern = {
  name: '"where" for "if"',
  pattern: /\b(?:null|undefined|empty|nothing|none|throws|rejects|refuses|true|false|only|also),? where\b/i,
  bad: 'Returns the path, or null where it does not exist.',
  good: 'Returns null if the place where it was is not known.',
};

const everywhere: readonly Pattern[] = [
  {
    name: '"is no ..." instead of "is not a ..."',
    pattern: /(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|later\b|one\b)/i,
    bad: 'A string that is no address.',
    good: 'There is no address, and there are no others: it is no longer used.',
  },
  { name: '"he" for a user', pattern: /\b(?:he|him|his|himself)\b/, bad: 'what he asked for', good: 'the, hint, her' },
  {
    name: '"somebody", "nobody", "whoever": say which person or program',
    pattern: /\b(?:somebody|nobody|whoever|anybody)\b/i,
    bad: 'Nobody waits for it.',
    good: 'No reader waits for it.',
  },
  {
    name: '"anew": again, new',
    pattern: /\banew\b/i,
    bad: 'It is made anew.',
    good: 'A new one is made; a newer one.',
  },
  {
    name: '"tells whether", "returns true if": returns whether (of a function), true if (of a field)',
    pattern: /\b(?:Tells|Says) (?:whether|if)\b|\bReturns true (?:for|if|once|unless|when|where|while)\b/,
    bad: 'Tells whether it rests.',
    good: 'Returns whether it rests. True if it rests.',
  },
  { name: '"as it came": unchanged', pattern: /\bas (?:it|they) came\b/i, bad: 'Mail as it came.', good: 'as it is' },
  { name: '"mend": fix', pattern: /\bmend(?:s|ed|ing)?\b/i, bad: 'Mend the entries.', good: 'Recommended, amend' },
  {
    name: '"stands in", "lies beside": is in, is next to',
    pattern: /\b(?:stands? (?:in|at|on|there|beside|behind|below)|lies? (?:in|beside|there))\b/i,
    bad: 'The id stands in the header.',
    good: 'The standard is in the outliers.',
  },
];

/** The text of each comment of a source, without its markers. */
function commentsOf(source: string): { text: string; line: number }[] {
  const comments: { text: string; line: number }[] = [];
  const lines = source.split('\n');
  let lastLine: number | null = null;
  const scanner = ts.createScanner(ts.ScriptTarget.Latest, false, ts.LanguageVariant.Standard, source);
  let template = 0;
  for (let kind = scanner.scan(); kind !== ts.SyntaxKind.EndOfFileToken; kind = scanner.scan()) {
    if (kind === ts.SyntaxKind.TemplateHead) template++;
    if (kind === ts.SyntaxKind.CloseBraceToken && template > 0) {
      // Inside `${...}` a brace may end an object as well; a template goes on where the scanner can read one.
      const next = scanner.reScanTemplateToken(false);
      if (next === ts.SyntaxKind.TemplateTail) template--;
    }
    if (kind === ts.SyntaxKind.SlashToken || kind === ts.SyntaxKind.SlashEqualsToken) scanner.reScanSlashToken();
    if (kind !== ts.SyntaxKind.SingleLineCommentTrivia && kind !== ts.SyntaxKind.MultiLineCommentTrivia) continue;
    const text = scanner
      .getTokenText()
      .replace(/^\/\*+\s*|^\/\/\s*|\s*\*\/$/g, '')
      .replaceAll(/\n\s*\* ?/g, ' ');
    const line = source.slice(0, scanner.getTokenStart()).split('\n').length;
    const before = comments.at(-1);
    const isLine = kind === ts.SyntaxKind.SingleLineCommentTrivia;
    // Lines that begin with `//` one below the other are one comment.
    const goesOn = isLine && lastLine === line - 1 && /^\s*\/\//.test(lines[line - 1] ?? '');
    if (goesOn && before !== undefined) before.text += ` ${text}`;
    else comments.push({ text, line });
    lastLine = isLine ? line : null;
  }
  return comments;
}

/** The texts of problems and of log lines. */
function messagesOf(source: string): { text: string; line: number }[] {
  const messages: { text: string; line: number }[] = [];
  const file = ts.createSourceFile('source.ts', source, ts.ScriptTarget.Latest, true);
  const collect = (node: ts.Node): void => {
    if (ts.isStringLiteral(node) || ts.isTemplateExpression(node) || ts.isNoSubstitutionTemplateLiteral(node))
      messages.push({
        text: node.getText(file),
        line: file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1,
      });
    else ts.forEachChild(node, collect);
  };
  const visit = (node: ts.Node): void => {
    const isMessage =
      (ts.isNewExpression(node) && node.expression.getText(file) === 'Problem') ||
      (ts.isCallExpression(node) && /\blog\.(?:debug|info|warn|error)$/.test(node.expression.getText(file)));
    if (isMessage) node.arguments?.forEach(collect);
    else ts.forEachChild(node, visit);
  };
  visit(file);
  return messages;
}

/** Returns the text without code and without the targets of links. */
const withoutCode = (text: string): string => text.replaceAll(/`[^`]*`|\]\([^)]*\)/g, '');

/** The lines of a document outside of its code blocks. */
function proseOf(markdown: string): { text: string; line: number }[] {
  const blocks = docBlocks(markdown);
  const inside = new Set(
    blocks.flatMap(({ line, text }) => Array.from({ length: text.split('\n').length + 1 }, (_, at) => line + at)),
  );
  return markdown
    .split('\n')
    .map((text, at) => ({ text: withoutCode(text), line: at + 1 }))
    .filter(({ line }) => !inside.has(line));
}

const filesIn = (place: string): string[] =>
  statSync(path.join(root, place)).isFile()
    ? [place]
    : readdirSync(path.join(root, place), { recursive: true, encoding: 'utf8' })
        .map((name) => path.join(place, name))
        // The types of the client are made from the descriptions of the API.
        .filter((name) => /\.(?:ts|md)$/.test(name) && name !== 'src/client/types.ts');

const faultsOf = (
  file: string,
  texts: readonly { text: string; line: number }[],
  patterns: readonly Pattern[],
): string[] =>
  texts.flatMap(({ text, line }) =>
    patterns.flatMap(({ name, pattern }) => {
      const found = pattern.exec(text);
      return found === null ? [] : [`${file}:${String(line)}: ${name}: ${text.slice(found.index, found.index + 60)}`];
    }),
  );

function faultsIn(file: string): string[] {
  const text = readFileSync(path.join(root, file), 'utf8');
  const isCode = file.endsWith('.ts');
  const all = [...ofComments, ...everywhere, WHERE_FOR_IF];
  return isCode
    ? [
        ...faultsOf(
          file,
          commentsOf(text).map((comment) => ({ ...comment, text: withoutCode(comment.text) })),
          all,
        ),
        ...faultsOf(file, messagesOf(text), everywhere),
      ]
    : faultsOf(file, proseOf(text), everywhere);
}

describe('words', () => {
  for (const { name, pattern, bad, good } of [...ofComments, ...everywhere, WHERE_FOR_IF])
    it(`finds: ${name}`, () => {
      assert.match(bad, pattern);
      assert.doesNotMatch(good, pattern);
    });

  it('finds comments of both kinds, and nothing in strings', () => {
    const source = `const a = '// no'; // one\n/** two\n * three */\nconst b = \`/* \${a} */\`; const c = /\\/\\/ no/;\n`;
    assert.deepEqual(
      commentsOf(source).map(({ text }) => text),
      ['one', 'two three'],
    );
  });

  it('joins the lines of one comment', () => {
    assert.deepEqual(
      commentsOf('// one,\n// two\nconst a = 1; // three\n').map(({ text }) => text),
      ['one, two', 'three'],
    );
  });

  it('finds texts of problems and log lines, and no other strings', () => {
    const source = "throw new Problem('a', `b`); this.log.warn({ event: 'd' }, 'e'); other.warn('f'); new Set(['g']);";
    assert.deepEqual(
      messagesOf(source).map(({ text }) => text),
      ["'a'", '`b`', "'d'", "'e'"],
    );
  });

  for (const place of held)
    it(`are plain in ${place}`, () => {
      assert.deepEqual(filesIn(place).flatMap(faultsIn), []);
    });
});
