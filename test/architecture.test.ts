/**
 * Who may import whom (docs/architecture.md). Arrows point down through five bands; the table is the whole rule, and each
 * kind of breach is shown to be found. To let a part use another, change the table here and the picture there.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { importsOf } from './support/tools/imports.ts';
import type { Import } from './support/tools/imports.ts';

const stores = [
  'accounts',
  'keys',
  'domains',
  'templates',
  'suppressions',
  'events',
  'messages',
  'tracking',
  'members',
];
const ground = ['mail', 'storage', 'net', 'scheduling', 'base'];

const mayImport: Readonly<Record<string, readonly string[]>> = {
  // 0 and 1: tools that any program might use
  base: [],
  net: ['scheduling', 'base'],
  scheduling: ['base'],
  mail: [],
  config: ['base'],
  storage: ['base', 'migrations'],
  migrations: [],
  client: [],
  version: [],
  data: [],
  // 2: the concepts, each with its store
  accounts: ['storage', 'net', 'scheduling', 'base'],
  members: ['data', ...ground],
  keys: ['accounts', 'storage', 'net', 'scheduling', 'base'],
  events: ['mail', 'storage', 'net', 'scheduling', 'base'],
  suppressions: ground,
  templates: ['storage', 'net', 'scheduling', 'base'],
  domains: ground,
  tracking: ['messages', 'suppressions', ...ground],
  messages: ['domains', 'templates', 'suppressions', 'events', 'accounts', 'data', ...ground],
  // The audit row, which every door to an operation writes
  operations: ['storage', 'base'],
  // 3: what runs; never each other
  mta: ['messages', 'domains', 'tracking', ...ground],
  inbound: ['messages', 'operations', 'keys', ...ground],
  webhooks: ['events', 'operations', 'storage', 'net', 'scheduling', 'base'],
  housekeeping: [...stores, 'webhooks', 'storage', 'net', 'scheduling', 'base'],
  backup: ['messages', 'storage', 'net', 'scheduling', 'base'],
  // 4: the doors: API, dashboard and command line; never mta or inbound
  api: [...stores, 'operations', 'webhooks', 'config', 'mail', 'storage', 'net', 'scheduling', 'base', 'version'],
  operator: [
    'api',
    'client',
    ...stores,
    'operations',
    'webhooks',
    'backup',
    'config',
    'mail',
    'storage',
    'net',
    'scheduling',
    'base',
    'version',
  ],
  dashboard: [
    'operator',
    'api',
    ...stores,
    'operations',
    'webhooks',
    'client',
    'config',
    'mail',
    'storage',
    'net',
    'scheduling',
    'base',
    'version',
  ],
  // The side of operations that people see, for doors that show it
  presentations: ['operator', 'operations', 'suppressions', 'client', 'base'],
  cli: [
    'presentations',
    'operator',
    'operations',
    'messages',
    'suppressions',
    'backup',
    'client',
    'config',
    'mail',
    'storage',
    'net',
    'scheduling',
    'base',
    'version',
  ],
  // 5: builds and starts; `cli` gets what it serves handed in by `main`
  app: [
    'api',
    'operator',
    'dashboard',
    'mta',
    'inbound',
    'housekeeping',
    'webhooks',
    'operations',
    ...stores,
    'config',
    ...ground,
    'version',
  ],
  main: ['app', 'cli', 'config', 'inbound', 'mta'],
};

/** Types of settings may be named by everything from band 2 up: a slice of the settings is handed in as plain data. */
const typesForAll = 'config';
const withoutTypes: ReadonlySet<string> = new Set([
  'base',
  'net',
  'scheduling',
  'mail',
  'storage',
  'migrations',
  'client',
  'version',
]);

/** Types of the engines may be named by the doors that show their state: what an engine says of itself is declared once, there. */
const mayName: Readonly<Record<string, readonly string[]>> = { operator: ['mta', 'inbound'], cli: ['mta', 'inbound'] };

/** Given, not taken: no network, disk, timer or database. Folders end in a slash; files of later issues are listed already. */
const pure = [
  'mail/',
  'scheduling/notifier.ts',
  'base/check.ts',
  'scheduling/gate.ts',
  'net/ip.ts',
  'scheduling/places.ts',
  'scheduling/lanes.ts',
  'base/phrase.ts',
  'base/problem.ts',
  'base/secret.ts',
  'base/spelling.ts',
  'config/bounce-rule.ts',
  'config/endpoint.ts',
  'config/kind.ts',
  'config/route.ts',
  'config/schema.ts',
  'storage/record.ts',
  'storage/tables.ts',
  'keys/caller.ts',
  'keys/scopes.ts',
  'domains/dns-records.ts',
  'domains/domain-record.ts',
  'domains/lost-records.ts',
  'events/event.ts',
  'templates/mixed/',
  'messages/store/message.ts',
  'messages/delivery/delivery.ts',
  'messages/delivery/decide.ts',
  'messages/limits/limit.ts',
  'messages/delivery/hold-mark.ts',
  'messages/delivery/retry.ts',
  'mta/prepare/compose.ts',
  'messages/delivery/return-path.ts',
  'messages/request/send-request.ts',
  'messages/delivery/classify.ts',
  'tracking/bots.ts',
  'tracking/host.ts',
  'tracking/rewrite.ts',
  'tracking/token.ts',
  'tracking/unsubscribe-link.ts',
  'mta/sites/sites.ts',
  'mta/attempt/outcome.ts',
  'mta/names.ts',
  'mta/limits/allowance.ts',
  'mta/limits/learn.ts',
  'mta/dns/mx.ts',
  'mta/connection/tls-policy.ts',
  'inbound/classify.ts',
  'inbound/forward.ts',
  'inbound/bounce.ts',
  'inbound/bounce-words.ts',
  'inbound/diagnostic.ts',
  'inbound/finding.ts',
  'inbound/named-recipients.ts',
  'inbound/notice.ts',
  'webhooks/signature.ts',
  'net/safe-url.ts',
  'webhooks/custom-header.ts',
  'webhooks/endpoint.ts',
  'webhooks/feed.ts',
  'webhooks/retry.ts',
  'mta/dns/dane.ts',
  'inbound/aggregate.ts',
  'mta/limits/shaping.ts',
  'backup/manifest.ts',
  'members/totp.ts',
  'dashboard/chart.ts',
  'dashboard/words.ts',
  'dashboard/forms.ts',
];
const impureModules =
  /^(?:node:)?(?:net|tls|dns|dgram|fs|http|https|http2|timers|child_process|worker_threads|cluster)(?:\/|$)|^(?:knex|sqlite3)$/;
/** Parts of such modules that only calculate. */
const calculations: ReadonlySet<string> = new Set(['isIP', 'isIPv4', 'isIPv6', 'BlockList', 'SocketAddress']);

/** The part of the house a file is in: its folder under src, `app`, `main`, `migrations`, or `data` (JSON files of config/). */
const partOf = (file: string): string =>
  /^\.\.\/config\/[^/]+\.json$/.test(file)
    ? 'data'
    : ((file.startsWith('../') ? (file.split('/')[1] ?? '') : file.replace(/\.ts$/, '').split('/')[0]) ?? '');
const isPure = (file: string): boolean =>
  pure.some((name) => (name.endsWith('/') ? file.startsWith(name) : file === name));
const targetOf = (file: string, from: string): string =>
  path.posix.normalize(path.posix.join(path.posix.dirname(file), from));

/** Everything in `sources` (path under src -> text) that the rules forbid, one line each. */
function breaches(sources: Readonly<Record<string, string>>): string[] {
  const imports = new Map(Object.entries(sources).map(([file, text]) => [file, importsOf(file, text)]));
  return [...imports].flatMap(([file, found]) => [
    ...found.flatMap((one) => wrongArrow(file, one)),
    ...(isPure(file) ? impurities(file, imports) : []),
  ]);
}

function wrongArrow(file: string, { from, typeOnly }: Import): string[] {
  if (from === '(computed)') return [`${file}: imports what cannot be known`];
  if (!from.startsWith('.')) return [];
  const [part, other] = [partOf(file), partOf(targetOf(file, from))];
  const allowed = mayImport[part];
  if (allowed === undefined) return [`${file}: ${part} is not in the table`];
  const isType =
    typeOnly && ((other === typesForAll && !withoutTypes.has(part)) || mayName[part]?.includes(other) === true);
  return part === other || allowed.includes(other) || isType
    ? []
    : [`${file}: ${part} may not import ${other} (${from})`];
}

/** The ways on which a pure file reaches the world, through whatever neighbours. */
function impurities(
  file: string,
  imports: ReadonlyMap<string, readonly Import[]>,
  way: readonly string[] = [],
): string[] {
  if (way.includes(file)) return [];
  const here = [...way, file];
  return (imports.get(file) ?? []).flatMap(({ from, typeOnly, names }) => {
    if (typeOnly) return [];
    if (from.startsWith('.')) return impurities(targetOf(file, from), imports, here);
    const calculates = names?.every((name) => calculations.has(name)) ?? false;
    return impureModules.test(from) && !calculates ? [`${here.join(' -> ')}: is pure, but imports ${from}`] : [];
  });
}

/** Each circle of files that import values of each other: such files have no order in which they can be loaded and read. */
function circles(sources: Readonly<Record<string, string>>): string[] {
  const next = new Map(
    Object.entries(sources).map(([file, text]) => [
      file,
      importsOf(file, text).flatMap(({ from, typeOnly }) =>
        typeOnly || !from.startsWith('.') ? [] : [targetOf(file, from)],
      ),
    ]),
  );
  const done = new Set<string>();
  const walk = (file: string, way: readonly string[]): string[] => {
    if (way.includes(file)) return [[...way.slice(way.indexOf(file)), file].join(' -> ')];
    if (done.has(file)) return [];
    const found = (next.get(file) ?? []).flatMap((other) => walk(other, [...way, file]));
    done.add(file);
    return found;
  };
  return [...next.keys()].flatMap((file) => walk(file, []));
}

describe('architecture', () => {
  const root = path.resolve(import.meta.dirname, '../src');
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

  it('holds over all of src', () => {
    const sources = Object.fromEntries(
      files.map((file) => [file.split(path.sep).join('/'), readFileSync(path.join(root, file), 'utf8')]),
    );
    assert.ok(files.length > 10);
    assert.deepEqual(breaches(sources), []);
  });

  it('has no circle of files', () => {
    const sources = Object.fromEntries(
      files.map((file) => [file.split(path.sep).join('/'), readFileSync(path.join(root, file), 'utf8')]),
    );
    assert.deepEqual(circles(sources), []);
  });

  it('finds a circle of files, and none of types', () => {
    const back = { 'cli/b.ts': "const a = await import('./c.ts');", 'cli/c.ts': "export { x } from './a.ts';" };
    assert.deepEqual(circles({ 'cli/a.ts': "import { b } from './b.ts';", ...back }), [
      'cli/a.ts -> cli/b.ts -> cli/c.ts -> cli/a.ts',
    ]);
    assert.deepEqual(circles({ 'cli/a.ts': "import type { B } from './b.ts';", ...back }), []);
  });

  it('calls nothing pure that is gone', () => {
    const here = files.map((file) => file.split(path.sep).join('/'));
    assert.deepEqual(
      pure.filter((name) => !here.some((file) => (name.endsWith('/') ? file.startsWith(name) : file === name))),
      [],
    );
  });

  it('has a place for every folder of src', () => {
    const parts = new Set(files.map((file) => partOf(file.split(path.sep).join('/'))));
    assert.deepEqual(
      [...parts].filter((part) => mayImport[part] === undefined),
      [],
    );
  });

  it('finds what is not pure behind a neighbour', () => {
    const sources = {
      'messages/delivery/decide.ts': "import { x } from './helper.ts';",
      'messages/delivery/helper.ts': "import { y } from './decide.ts'; import net from 'node:net';",
    };
    assert.deepEqual(breaches(sources), [
      'messages/delivery/decide.ts -> messages/delivery/helper.ts: is pure, but imports node:net',
    ]);
  });

  it('has no circle', () => {
    const reached = (part: string, way: readonly string[]): string[] =>
      way.includes(part)
        ? [[...way, part].join(' -> ')]
        : (mayImport[part] ?? []).flatMap((next) => reached(next, [...way, part]));
    assert.deepEqual(reached('main', []), []);
    assert.deepEqual(
      Object.values(mayImport)
        .flat()
        .filter((part) => mayImport[part] === undefined),
      [],
    );
  });

  for (const [file, text, breach, reason] of [
    [
      'base/clock.ts',
      "import { x } from '../storage/tables.ts';",
      'base may not import storage',
      'an arrow that points up',
    ],
    ['mail/header.ts', "import { x } from '../base/id.ts';", 'mail may not import base', 'the formats stand alone'],
    [
      'mta/mta.ts',
      "import { x } from '../inbound/inbound.ts';",
      'mta may not import inbound',
      'engines never meet but in the database',
    ],
    [
      'api/messages.ts',
      "import { x } from '../mta/mta.ts';",
      'api may not import mta',
      'the API does not drive the engine',
    ],
    ['cli/serve.ts', "import { createApp } from '../app.ts';", 'cli may not import app', 'what it serves is handed in'],
    [
      'keys/keys.ts',
      "import { x } from '../domains/verify.ts';",
      'keys may not import domains',
      'two concepts beside each other',
    ],
    ['api/x.ts', "export { x } from '../inbound/inbound.ts';", 'api may not import inbound', 'passing on is importing'],
    ['api/x.ts', "const x = await import('../mta/mta.ts');", 'api may not import mta', 'late is no excuse'],
    ['api/x.ts', "let x: import('../mta/mta.ts').Mta;", 'api may not import mta', 'types tie parts as well'],
    ['api/x.ts', "import type { Mta } from '../mta/mta.ts';", 'api may not import mta', 'types tie parts as well'],
    ['api/x.ts', 'const x = await import(name);', 'cannot be known', 'nobody could hold a rule over it'],
    [
      'mta/x.ts',
      "import { settings } from '../config/schema.ts';",
      'mta may not import config',
      'values of settings are handed in',
    ],
    [
      'storage/x.ts',
      "import type { Config } from '../config/schema.ts';",
      'storage may not import config',
      'the ground knows no settings',
    ],
    [
      'api/x.ts',
      "import { x } from '../../test/support/hooks.ts';",
      'api may not import test',
      'nor what is not part of the program',
    ],
    [
      'novelty/x.ts',
      "import { x } from '../base/id.ts';",
      'novelty is not in the table',
      'a new folder needs its line',
    ],
    ['mail/dkim/sign.ts', "import { readFileSync } from 'node:fs';", 'is pure', 'a format that reads files'],
    ['messages/delivery/decide.ts', "import knex from 'knex';", 'is pure', 'a decision that asks the database'],
    [
      'messages/delivery/retry.ts',
      "import { setTimeout } from 'node:timers/promises';",
      'is pure',
      'a rule that waits',
    ],
    ['mta/attempt/outcome.ts', "import { isIP, connect } from 'node:net';", 'is pure', 'a rule that dials'],
  ] as const) {
    it(`finds ${JSON.stringify(text)} in ${file}: ${reason}`, () => {
      const found = breaches({ [file]: text });
      assert.equal(found.length, 1);
      assert.ok(found[0]?.includes(breach), found[0]);
    });
  }

  for (const [file, text, reason] of [
    ['mta/x.ts', "import type { Route } from '../config/route.ts';", 'the type of a slice of the settings'],
    ['operator/x.ts', "import type { Mta } from '../mta/mta.ts';", 'the type of what is handed in'],
    ['mta/attempt/outcome.ts', "import { isIP } from 'node:net';", 'that only calculates'],
    ['messages/delivery/decide.ts', "import type { Knex } from 'knex';", 'a type does nothing'],
    [
      'messages/delivery/record.ts',
      "import { decide } from './decide.ts'; // import '../mta/mta.ts'",
      'downward, and a comment is no import',
    ],
    ['storage/migrate.ts', "import { up } from '../../migrations/001-schema.ts';", 'the listed migrations'],
    ['main.ts', "const { createApp } = await import('./app.ts');", 'late, so that small commands start quickly'],
  ] as const) {
    it(`allows ${JSON.stringify(text)} in ${file}: ${reason}`, () => {
      assert.deepEqual(breaches({ [file]: text }), []);
    });
  }
});
