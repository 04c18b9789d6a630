/**
 * Comments and documents are plain sentences (CONTRIBUTING, "Words"). This test holds what a pattern can find, in the folders and files
 * that are listed; add a folder once its comments are rewritten.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { docBlocks } from './support/tools/doc-blocks.ts';

const root = path.resolve(import.meta.dirname, '..');

/** Folders and files whose words are held, relative to the repository. */
const held: readonly string[] = [
  '.github',
  'CHANGELOG.md',
  'README.md',
  'docs/api.md',
  'docs/architecture.md',
  'docs/backup.md',
  'docs/benchmark.md',
  'docs/client.md',
  'docs/comparison.md',
  'docs/dashboard.md',
  'docs/deliverability.md',
  'docs/delivery.md',
  'docs/dns.md',
  'docs/glossary.md',
  'docs/install.md',
  'docs/keys-and-domains.md',
  'docs/migrating.md',
  'docs/monitoring.md',
  'docs/operating.md',
  'docs/performance-notes.md',
  'docs/performance.md',
  'docs/samples.md',
  'docs/templates.md',
  'docs/troubleshooting.md',
  'src/accounts',
  'src/api',
  'src/app',
  'src/app.ts',
  'src/backup',
  'src/base',
  'src/bin',
  'src/cli',
  'src/client',
  'src/config',
  'src/dashboard',
  'src/domains',
  'src/events',
  'src/housekeeping',
  'src/inbound',
  'src/keys',
  'src/mail',
  'src/main.ts',
  'src/members',
  'src/messages',
  'src/mta',
  'src/net',
  'src/operations',
  'src/operator',
  'src/scheduling',
  'src/storage',
  'src/suppressions',
  'src/templates',
  'src/tracking',
  'src/version.ts',
  'src/webhooks',
];

interface Pattern {
  readonly name: string;
  readonly pattern: RegExp;
  /** Text that the pattern finds, so that a pattern that finds nothing fails. */
  readonly bad: string;
  /** Similar text that it must leave alone. */
  readonly good: string;
}

/** An opening is the beginning of a comment; the other patterns apply to all of its text. */
const openings: readonly Pattern[] = [
  {
    name: 'opens with What, Who, Whose or Whether instead of a noun or a verb',
    pattern: /^(?:What|Who|Whose|Whether) /,
    bad: 'Whether the lane rests.',
    good: 'Returns whether the lane rests.',
  },
];
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
    comments.push({ text, line: source.slice(0, scanner.getTokenStart()).split('\n').length });
  }
  return comments;
}

/** The lines of a document outside of its code blocks. */
function proseOf(markdown: string): { text: string; line: number }[] {
  const blocks = docBlocks(markdown);
  const inside = new Set(
    blocks.flatMap(({ line, text }) => Array.from({ length: text.split('\n').length + 1 }, (_, at) => line + at)),
  );
  return markdown
    .split('\n')
    .map((text, at) => ({ text: text.replaceAll(/`[^`]*`|\]\([^)]*\)/g, ''), line: at + 1 }))
    .filter(({ line }) => !inside.has(line));
}

const filesIn = (place: string): string[] =>
  statSync(path.join(root, place)).isFile()
    ? [place]
    : readdirSync(path.join(root, place), { recursive: true, encoding: 'utf8' })
        .map((name) => path.join(place, name))
        // The types of the client are made from the descriptions of the API.
        .filter((name) => /\.(?:ts|md)$/.test(name) && name !== 'src/client/types.ts');

function faultsIn(file: string): string[] {
  const text = readFileSync(path.join(root, file), 'utf8');
  const isCode = file.endsWith('.ts');
  return (isCode ? commentsOf(text) : proseOf(text)).flatMap((one) =>
    [...(isCode ? openings : []), ...everywhere].flatMap(({ name, pattern }) => {
      const found = pattern.exec(one.text);
      return found === null
        ? []
        : [`${file}:${String(one.line)}: ${name}: ${one.text.slice(found.index, found.index + 60)}`];
    }),
  );
}

describe('words', () => {
  for (const { name, pattern, bad, good } of [...openings, ...everywhere])
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

  for (const place of held)
    it(`are plain in ${place}`, () => {
      assert.deepEqual(filesIn(place).flatMap(faultsIn), []);
    });
});
