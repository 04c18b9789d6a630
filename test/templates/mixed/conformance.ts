/** How the language does beside the two that it brings together: the table in docs/templates.md. */
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import Handlebars from 'handlebars';
import { compile, render, type Part } from '../../../src/templates/mixed/index.ts';
import { corpus } from '../../support/harness/corpora.ts';
import { handlebarsCases } from './handlebars-cases.ts';

export interface Group {
  name: string;
  passed: number;
  of: number;
  /** Cases of what the language has on purpose not. */
  leftOut: number;
  failing: readonly string[];
}

export interface Conformance {
  /** Null if the cases of others are not there. */
  liquid: readonly Group[] | null;
  mustache: readonly Group[] | null;
  handlebars: readonly Group[];
}

interface Case {
  name: string;
  template: string;
  data?: object;
  expected?: string;
  result?: string;
  results?: string[];
  invalid?: boolean;
  tags?: string[];
}

/** The output, or null if the template or its data have a fault. */
function outputOf(source: string, variables: object, part: Part): string | null {
  const compiled = compile(source, part);
  if (!compiled.ok) return null;
  const more = { strict: false, locale: 'en', timezone: 'UTC', now: 0, monotonic: () => 0 };
  const result = render(compiled.template, { variables: variables as Record<string, unknown>, ...more });
  return result.ok ? result.output : null;
}

function group<T>(
  name: string,
  cases: readonly T[],
  told: (one: T) => string,
  check: { inScope(one: T): boolean; passes(one: T): boolean },
): Group {
  const inScope = cases.filter((one) => check.inScope(one));
  const failing = inScope.filter((one) => !check.passes(one)).map(told);
  return {
    name,
    passed: inScope.length - failing.length,
    of: inScope.length,
    leftOut: cases.length - inScope.length,
    failing,
  };
}

/** Templates that others bring in do not belong to the language. */
const liquidCase = {
  inScope: ({ tags = [] }: Case): boolean => !tags.some((tag) => tag === 'include tag' || tag === 'render tag'),
  passes({ template, data = {}, result, results, invalid }: Case): boolean {
    const seen = outputOf(template, data, 'text');
    return invalid === true ? seen === null : seen !== null && (results ?? [result]).includes(seen);
  },
};

function liquidGroups(): Group[] | null {
  const file = corpus('templates/liquid.json');
  if (file === null) return null;
  const { tests } = JSON.parse(readFileSync(file, 'utf8')) as { tests: Case[] };
  const groups = new Map<string, Case[]>();
  for (const one of tests) {
    const name = one.name.split(', ')[0] ?? '';
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  return [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, cases]) => group(name, cases, (one) => `${one.name}: ${one.template}`, liquidCase));
}

/** Set delimiters, partials and the optional modules are not part of Handlebars, or not of this language. */
const isLeftOut = (file: string): boolean => /^~|partials|delimiters/.test(file);

function mustacheGroups(): Group[] | null {
  const folder = corpus('templates/mustache');
  if (folder === null) return null;
  return readdirSync(folder)
    .sort()
    .map((file) => {
      const { tests } = JSON.parse(readFileSync(path.join(folder, file), 'utf8')) as { tests: Case[] };
      return group(file.replace(/^~|\.json$/g, ''), tests, (one) => `${one.name}: ${one.template}`, {
        inScope: () => !isLeftOut(file),
        passes: ({ template, data = {}, expected }) => outputOf(template, data, 'html') === expected,
      });
    });
}

/** Returns the text that Handlebars prints, or null if it refuses. It writes the apostrophe in hexadecimal. */
export function byHandlebars(source: string, data: object): string | null {
  try {
    return Handlebars.compile(source)(data, { allowProtoPropertiesByDefault: false }).replaceAll('&#x27;', '&#39;');
  } catch {
    return null;
  }
}

export function conformance(): Conformance {
  return {
    liquid: liquidGroups(),
    mustache: mustacheGroups(),
    handlebars: Object.entries(handlebarsCases).map(([name, cases]) =>
      group(name, cases, ({ source }) => source, {
        inScope: () => true,
        passes: ({ source, data }) => outputOf(source, data, 'html') === byHandlebars(source, data),
      }),
    ),
  };
}

const FROM = '<!-- conformance: made by `npm run docs` -->';
const TO = '<!-- /conformance -->';

/** Returns docs/templates.md with the table that it should have. Without the cases of others, theirs stays as it is. */
export function conformancePage(): string {
  const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/templates.md'), 'utf8');
  const { liquid, mustache, handlebars } = conformance();
  if (liquid === null || mustache === null) return page;
  const before = page.slice(0, page.indexOf(FROM) + FROM.length);
  const after = page.slice(page.indexOf(TO));
  const rows = [rowOf('Liquid', liquid), rowOf('Handlebars', handlebars), rowOf('Mustache', mustache)];
  return `${before}\n\n${table([['language', 'passed', 'of', 'left out'], ...rows])}\n\n${after}`;
}

function rowOf(language: string, groups: readonly Group[]): string[] {
  const sum = (of: (one: Group) => number): string => String(groups.reduce((total, one) => total + of(one), 0));
  return [language, sum(({ passed }) => passed), sum(({ of }) => of), sum(({ leftOut }) => leftOut)];
}

/** As the formatter sets it: columns of one width. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, n) => Math.max(...rows.map((row) => row[n]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, n) => cell.padEnd(widths[n] ?? 0)).join(' | ')} |`;
  const [head = [], ...body] = rows;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)].join('\n');
}
