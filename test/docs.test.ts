/**
 * The documents say what is: generated ones are fresh, every command runs, every sample is one the code would give or take,
 * and what can be listed (members, parameters, scopes, commands, log events, exit codes) is listed whole.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { deliveryStatuses } from '../src/storage/tables.ts';
import { catalogue } from '../src/base/problem.ts';
import { run } from '../src/cli/cli.ts';
import { exitCodes } from '../src/cli/exit-codes.ts';
import { bounceRuleFile } from '../src/config/bounce-rule.ts';
import { readSettings } from '../src/config/load.ts';
import { scopes } from '../src/keys/scopes.ts';
import { defaultLimits } from '../src/messages/request/send-limits.ts';
import { checkSend } from '../src/messages/request/send-request.ts';
import { BulkMessage, SingleMessage } from '../src/messages/request/send-schema.ts';
import { docBlocks } from './support/tools/doc-blocks.ts';
import { startDocReader, type DocReader } from './support/tools/doc-reader.ts';
import { asvsNumbers } from './support/tools/asvs-numbers.ts';
import { generatedDocs } from './support/tools/generated-docs.ts';

const root = path.resolve(import.meta.dirname, '..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const documents = ['', '.github/', 'docs/']
  .flatMap((folder) => readdirSync(path.join(root, folder)).map((name) => `${folder}${name}`))
  .filter((name) => name.endsWith('.md'))
  .sort();

describe('generated documents', () => {
  for (const [file, make] of generatedDocs) {
    it(`${file} is what \`npm run docs\` makes`, async () => {
      assert.equal(read(file), await make());
    });
  }
});

describe('docs/dependencies.md', () => {
  it('names each package with its reason, and no other', () => {
    const { dependencies, devDependencies } = JSON.parse(read('package.json')) as Record<
      string,
      Record<string, string>
    >;
    const used = read('docs/dependencies.md');
    const cells = [...used.matchAll(/^\| (`[^|]+`) +\| \S/gm)].map(([, cell = '']) => cell);
    const named = cells.flatMap((cell) => cell.split(', ').map((name) => name.replaceAll('`', '')));
    assert.deepEqual(named.sort(), Object.keys({ ...dependencies, ...devDependencies }).sort());
  });
});

describe('docs/glossary.md', () => {
  it('has at most 20 words, each once', () => {
    const words = [...read('docs/glossary.md').matchAll(/^\| ([a-z ]+?) +\| \S/gm)].map(([, word = '']) => word);
    assert.ok(words.length > 10 && words.length <= 20, String(words.length));
    assert.equal(new Set(words).size, words.length);
  });
});

describe('docs/security.md', () => {
  const page = read('docs/security.md');
  /** The numbers and the rest of each line below this heading; a chapter alone stands for all its numbers. */
  const rowsOf = (heading: string): { numbers: string[]; shown: string }[] => {
    const section = page.slice(page.indexOf(`### ${heading}\n`)).split('\n#', 1)[0] ?? '';
    return [...section.matchAll(/^- (V\d[\d., V]*): (.+)$/gm)].map(([, words = '', shown = '']) => ({
      numbers: words.split(', ').flatMap((word) => (word.includes('.') ? word : chapter(word))),
      shown,
    }));
  };
  const chapter = (word: string): string[] => asvsNumbers.filter((number) => number.startsWith(`${word}.`));
  const states = { 'are met': rowsOf('Met'), 'are not': rowsOf('Not met'), 'do not apply': rowsOf('Does not apply') };

  it('has each requirement of levels 1 and 2 once', () => {
    const listed = Object.values(states).flatMap((rows) => rows.flatMap(({ numbers }) => numbers));
    assert.deepEqual(listed.sort(), [...asvsNumbers].sort());
  });
  it('counts them rightly', () => {
    for (const [words, rows] of Object.entries(states)) {
      const count = rows.flatMap(({ numbers }) => numbers).length;
      assert.ok(page.includes(`${String(count)} ${words}`), `${words}: ${String(count)}`);
    }
  });
  it('names a test or a page for each that is met', () => {
    const bare = states['are met'].filter(({ shown }) => !/`test\/|\]\(/.test(shown));
    assert.deepEqual(bare, []);
  });
  for (const file of new Set([...page.matchAll(/`(test\/[\w./-]+)`/g)].map(([, name = '']) => name)))
    it(`names ${file}, which is there`, () => {
      assert.ok(existsSync(path.join(root, file)));
    });
});

describe('links', () => {
  /** As GitHub makes them of headings. */
  const anchorsOf = (markdown: string): string[] =>
    [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    );

  for (const document of documents) {
    it(`of ${document} lead somewhere`, () => {
      for (const [, target = ''] of read(document).matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^https?:/.test(target)) continue;
        const [file = '', anchor] = target.split('#');
        const there = file === '' ? document : path.join(path.dirname(document), file);
        assert.ok(existsSync(path.join(root, there)), `${document}: ${target} is not there`);
        if (anchor !== undefined)
          assert.ok(anchorsOf(read(there)).includes(anchor), `${document}: no heading ${target}`);
      }
    });
  }
});

describe('tables', () => {
  const cellsOf = (line: string): number => line.split(/(?<!\\)\|/).length;
  for (const document of documents)
    it(`of ${document} have in each row as many cells as in their head`, () => {
      let head: string | null = null;
      for (const line of read(document)
        .replaceAll(/^```[\s\S]*?^```/gm, '')
        .split('\n')) {
        head = line.startsWith('|') ? (head ?? line) : null;
        if (head !== null) assert.equal(cellsOf(line), cellsOf(head), line);
      }
    });
});

describe('paths', () => {
  const folders = ['.ci', '.github', 'config', 'docs', 'migrations', 'src', 'systemd', 'test'];
  const isThere = (name: string): boolean => existsSync(path.join(root, name));
  for (const document of documents)
    it(`of ${document} are there`, () => {
      const words = [...read(document).matchAll(/`([\w.-]+\/[\w./-]+\.\w+)`/g)].map(([, name = '']) => name);
      const named = words.filter((name) => folders.includes(name.split('/', 1)[0] ?? ''));
      assert.deepEqual(
        named.filter((name) => !isThere(name) && !isThere(`src/${name}`) && !name.includes('/NAME.')),
        [],
      );
    });
  it('of docs/architecture.md are below src or the root', () => {
    const names = [...read('docs/architecture.md').matchAll(/(?:[a-z-]+\/)+[\w-]+\.(?:ts|json|txt)/g)].map(
      ([name]) => name,
    );
    assert.ok(names.length > 50);
    assert.deepEqual(
      names.filter((name) => !isThere(name) && !isThere(`src/${name}`)),
      [],
    );
  });
});

describe('samples of settings', () => {
  for (const document of documents) {
    for (const { language, text, line } of docBlocks(read(document))) {
      if (language !== 'yaml') continue;
      it(`${document}, line ${String(line)} is taken`, () => {
        if (text.startsWith('rules:')) {
          assert.deepEqual(bounceRuleFile.safeParse(parse(text)).error, undefined);
          return;
        }
        const around = { cwd: '/', privileged: false, terminal: false, hostname: 'mail.example.com' };
        assert.equal(readSettings(parse(text), around).kind, 'ok');
      });
    }
  }
});

describe('samples in the documents', () => {
  const samples = documents.flatMap((document) =>
    docBlocks(read(document))
      .filter(({ language }) => language === 'json')
      .map((block) => ({ name: `${document}, line ${String(block.line)}`, value: JSON.parse(block.text) as Sample })),
  );
  interface Sample {
    [member: string]: unknown;
    error?: { code: string };
  }

  it('are there', () => {
    assert.ok(samples.length >= 3, String(samples.length));
  });
  for (const { name, value } of samples) {
    it(`${name}: ${Object.keys(value).slice(0, 3).join(', ')}`, () => {
      if (value.error === undefined) checkSend(value, { now: 0, smtputf8: false, limits: defaultLimits });
      else {
        assert.ok(Object.hasOwn(catalogue, value.error.code));
        assert.deepEqual(Object.keys(value.error), ['code', 'message', 'field', 'request_id']);
      }
    });
  }
});

describe('what the documents list', () => {
  /** The code words in the first column of all tables, and those that begin the entries of lists. */
  const listed = (file: string): Set<string> =>
    new Set(
      read(file)
        .split('\n')
        .filter((line) => /^(?:\| |- `)/.test(line))
        .flatMap((line) => [...(line.split(/ \| | \(/)[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, word = '']) => word)),
    );
  const holdsAll = (file: string, wanted: readonly string[]): void => {
    const words = listed(file);
    assert.deepEqual(
      wanted.filter((word) => !words.has(word)),
      [],
      `${file} does not list these`,
    );
  };

  it('every member of a send request', () => {
    holdsAll('docs/api.md', [...Object.keys(SingleMessage.shape), ...Object.keys(BulkMessage.shape)]);
  });
  it('every status', () => {
    holdsAll('docs/api.md', deliveryStatuses);
  });
  it('every scope with what it opens', () => {
    const lines = read('docs/api.md').split('\n');
    for (const [scope, opens] of Object.entries(scopes)) assert.ok(lines.includes(`- \`${scope}\`: ${opens}`), scope);
  });
  it('every exit code', () => {
    const codes = [...read('docs/operating.md').matchAll(/^\| (\d+) +\|/gm)].map(([, code]) => Number(code));
    assert.deepEqual(
      Object.values<number>(exitCodes).filter((code) => !codes.includes(code) && code !== 65),
      [],
    );
    assert.ok(codes.includes(exitCodes.data));
  });
  it('every log line that has an event', () => {
    const sources = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.ts'),
    );
    const names = sources.flatMap((name) => [
      ...read(`src/${name}`).matchAll(/\blog(?:\.(?:debug|info|warn|error)|\[[^\]]+\])\(\s*\{\s*event: '(\w+)'/g),
    ]);
    assert.ok(names.length > 100);
    holdsAll(
      'docs/log.md',
      names.map(([, event = '']) => event),
    );
  });
});

describe('commands within sentences', () => {
  for (const document of documents) {
    it(`of ${document} are not asked of npm, where anyone may take the name`, () => {
      assert.doesNotMatch(read(document), /npx (?:-\S+ )*posthorn/);
    });
    it(`of ${document} have the options that are named`, async () => {
      const named = [...read(document).matchAll(/`(?:sudo )?posthorn ([a-z][^`]*?--[^`]*)`/g)];
      for (const [, text = ''] of named) {
        const [before = ''] = text.split(/ --| [A-Z$<"']/, 1);
        const help = await helpOf(before.split(' '));
        for (const [, option = ''] of text.matchAll(/ (--[a-z-]+)/g))
          assert.ok(`${help} --help `.includes(`${option} `), `posthorn ${text}: there is no ${option}`);
      }
    });
  }
});

async function helpOf(command: readonly string[]): Promise<string> {
  const lines: string[] = [];
  const output = { out: (text: string) => void lines.push(text), note: () => undefined };
  await run([...command, '--help'], {}, output);
  return lines.join('\n');
}

describe('commands in the documents', () => {
  const hasCurl = spawnSync('curl', ['--version'], { stdio: 'ignore' }).status === 0;
  const hasSqlite = spawnSync('sqlite3', ['--version'], { stdio: 'ignore' }).status === 0;

  for (const document of documents) {
    const blocks = docBlocks(read(document)).filter(({ language }) => language === 'sh');
    if (blocks.length === 0) continue;
    describe(document, () => {
      let reader: DocReader;
      before(async () => {
        reader = await startDocReader();
      });
      after(() => reader.close());

      for (const block of blocks) {
        const { comment } = block;
        if (comment?.startsWith('not run') === true) {
          it(`line ${String(block.line)} says why it is not run`, () => {
            assert.match(comment, /^not run: \S.{9,}/);
          });
          continue;
        }
        it(`line ${String(block.line)}: ${block.text.split('\n', 1)[0] ?? ''}`, async function () {
          if (/\bcurl\b/.test(block.text) && !hasCurl) this.skip('curl is not installed (apt-get install curl)');
          if (/\bsqlite3 /.test(block.text) && !hasSqlite)
            this.skip('sqlite3 is not installed (apt-get install sqlite3)');
          if (comment === 'run without server') await reader.runAlone(block.text);
          else if (comment === 'runs until stopped') await reader.runUntilItSpeaks(block.text);
          else await reader.run(block.text);
        });
      }
      if (document === 'docs/api.md') {
        it('names every path and every parameter of the API', async () => {
          const response = await fetch(`${reader.url}/v1/openapi.json`);
          assert.deepEqual(missingFrom(read(document), (await response.json()) as Described), []);
        });
      }
      it('sends mail that arrives, where it sends to example.net', async () => {
        const expected = blocks.filter(
          ({ text, comment }) => text.includes('ana@example.net') && comment?.startsWith('not run') !== true,
        ).length;
        if (expected > 0) await reader.mailHost.reached('message', expected);
      });
    });
  }
});

/** The parts of an OpenAPI document that this test reads. */
interface Described {
  paths: Record<string, Record<string, { parameters?: { name?: string; in?: string }[] }>>;
}

/** Paths and query parameters that the manual does not name. */
function missingFrom(manual: string, { paths }: Described): string[] {
  const words = Object.entries(paths).flatMap(([at, methods]) =>
    Object.entries(methods).flatMap(([method, { parameters = [] }]) => [
      `${method.toUpperCase()} ${at}`,
      ...parameters.flatMap(({ name, in: place }) => (place === 'query' && name !== undefined ? [name] : [])),
    ]),
  );
  assert.ok(words.length > 30, 'the description lists little');
  return words.filter((word) => !manual.includes(`\`${word}`) && !manual.includes(`\`?${word}=`));
}
