/** Forms that views declare: what they show, read and send, and that all of them are of operations that there are. */
import assert from 'node:assert/strict';
import Handlebars from 'handlebars';
import { z } from 'zod';
import type { Route } from '../../src/api/route.ts';
import { Problem } from '../../src/base/problem.ts';
import type { Visit } from '../../src/dashboard/page.ts';
import { resource } from '../../src/dashboard/resource.ts';
import { bodyOf, formsOf, inputsOf } from '../../src/dashboard/view-forms.ts';
import { loadViews, viewSources } from '../../src/dashboard/views.ts';
import { serverRoutes } from '../../src/operator/routes.ts';
import { Office } from '../operator/office.ts';

const body = z
  .strictObject({
    name: z.string().max(20),
    pool: z.string().optional(),
    size: z.int().max(99).optional(),
    kinds: z.array(z.enum(['a', 'b'])).optional(),
    hosts: z.array(z.string()).optional(),
    loud: z.boolean().optional(),
    type: z.enum(['one', 'two']).optional(),
  })
  .meta({ id: 'Thing' });
const routes = [{ operationId: 'updateThing', scope: ['stream'], body }] as unknown as readonly Route[];

const form = (source: string) => formsOf('things', new Map([['things', source]]))[0] ?? assert.fail('there is no form');

const visitWith = (fields: Record<string, string> | [string, string][]): Visit =>
  ({
    server: { inputs: inputsOf([]) },
    form: new URLSearchParams(fields),
    params: { id: 'str_1' },
    may: () => true,
  }) as unknown as Visit;

describe('dashboard: forms of views', () => {
  it('are found with their words and fields, in parts too, and once each', () => {
    const sources = new Map([
      ['things', '{{#if a}}{{> part}}{{else}}{{#form "/things/:id" "updateThing"}}{{/form}}{{/if}}'],
      [
        '_part',
        '{{#form "/things/:id" "updateThing" said="Done {{name}}."}}{{#if b}}{{field "name" most=5}}{{/if}}{{/form}}',
      ],
    ]);
    assert.deepEqual(formsOf('things', sources), [
      {
        to: '/things/:id',
        operation: 'updateThing',
        words: { said: 'Done {{name}}.' },
        fields: [{ name: 'name', words: { most: 5 } }],
      },
    ]);
  });

  const all = ['name', 'pool', 'size', 'kinds', 'hosts', 'loud', 'type'].map((name) => `{{field "${name}"}}`).join('');
  const sent: [source: string, fields: [string, string][], body: object][] = [
    [all, [['name', ' x ']], { name: 'x', kinds: [], loud: false }],
    [
      all,
      [
        ['pool', 'p'],
        ['size', '7'],
        ['kinds', 'a'],
        ['kinds', 'b'],
        ['hosts', 'x, y\nz'],
        ['loud', '1'],
        ['type', 'two'],
      ],
      { pool: 'p', size: 7, kinds: ['a', 'b'], hosts: ['x', 'y', 'z'], loud: true, type: 'two' },
    ],
    ['{{field "size"}}', [['size', 'many']], { size: NaN }],
    ['{{field "name" empty=true}}', [['name', '']], { name: '' }],
    ['{{field "pool" kind="boxes"}}', [['pool', 'p']], { pool: ['p'] }],
    ['{{field "size"}}', [['other', 'x']], {}],
  ];
  for (const [source, fields, wanted] of sent)
    it(`read ${source} as ${JSON.stringify(wanted)}`, () => {
      const declared = form(`{{#form "/things" "updateThing"}}${source}{{/form}}`);
      assert.deepEqual(bodyOf(declared, inputsOf(routes), visitWith(fields), {}), wanted);
    });

  it('stand for members, and read a field as their page says', () => {
    const declared = form('{{#form "/things" "updateThing" set="loud=true pool=x"}}{{field "size"}}{{/form}}');
    const reads = { size: () => ({ name: 'read' }) };
    assert.deepEqual(bodyOf(declared, inputsOf(routes), visitWith({}), reads), { name: 'read', loud: true, pool: 'x' });
  });

  it('are shown by the operation: limits, what is required, choices; not to those whose role may not', () => {
    const row = { id: 'str_1', slug: 'news', name: '<b>', pool: 'p', priority: 1, paused: false };
    const views = loadViews(
      inputsOf([
        {
          operationId: 'updateStream',
          scope: ['stream'],
          body: z.object({ name: z.string().max(7) }),
        } as unknown as Route,
      ]),
    );
    const shown = views.part('streams', { rows: [row] }, { scopes: ['stream'], token: 't' });
    assert.match(shown, /action="\/streams\/str_1">.*?name="_seen" value="[\w-]{22}"/);
    assert.match(shown, /<label>Name<input name="name" required maxlength="7" value="&lt;b&gt;"/);
    assert.match(shown, /<option value="1" selected>1: every fifth turn/);
    assert.doesNotMatch(views.part('streams', { rows: [row] }, { scopes: [] }), /action="\/streams\/str_1"/);
  });

  describe('of a resource', () => {
    const record = { id: 'str_1', slug: 'news', name: 'News', pool: 'p', priority: 1, paused: false };
    const asked: unknown[] = [];
    const pages = resource({
      path: '/streams',
      view: 'streams',
      title: 'Streams',
      load: () => ({ rows: [record] }),
    });
    const send = async (to: string, fields: Record<string, string>, refuse?: Problem) => {
      asked.length = 0;
      const page = pages.find(({ method, path }) => method === 'POST' && path === to) ?? assert.fail(to);
      const ask = (id: string, input: object): Promise<object> => {
        asked.push([id, input]);
        return refuse === undefined ? Promise.resolve(record) : Promise.reject(refuse);
      };
      const visit = { ...visitWith(fields), member: {}, ask } as unknown as Visit;
      return await (async () => page.run(visit))().catch((error: unknown) => {
        assert.ok(error instanceof Problem && page.again !== undefined, String(error));
        return page.again(visit, error);
      });
    };
    const params = { id: 'str_1' };

    it('have their addresses beside its page', () => {
      assert.deepEqual(pages.map(({ method, path }) => `${method} ${path}`).sort(), [
        'GET /streams',
        ...['', '/:id', '/:id/pause', '/:id/remove', '/:id/resume'].map((end) => `POST /streams${end}`),
      ]);
    });

    it('perform their operation, and say what they did', async () => {
      assert.deepEqual(await send('/streams/:id/pause', { paused: 'false' }), {
        kind: 'move',
        to: '/streams',
        say: 'Paused: mail for it is refused, and what waits is held.',
      });
      assert.deepEqual(asked, [['updateStream', { params, body: { paused: true } }]]);
    });

    it('are shown again with the fault and what was typed', async () => {
      const fault = new Problem('invalid_field', 'no', { field: 'name' });
      const shown = await send('/streams/:id', { name: 'x' }, fault);
      assert.ok(shown.kind === 'view');
      assert.equal(shown.status, fault.status);
      const html = loadViews(inputsOf([])).part('streams', shown.data, { scopes: ['stream'] });
      assert.match(html, /<details open>.*<input name="name" value="x"/);
    });

    it('are not sent if what they change was changed meanwhile', async () => {
      const shown = await send('/streams/:id', { name: 'x', _seen: 'another' });
      assert.ok(shown.kind === 'view');
      assert.equal(shown.status, 409);
      assert.deepEqual(asked, []);
    });
  });

  it('are all of operations that there are, with fields that these take or that their page reads', async () => {
    const office = await Office.open();
    const known = [...office.routes, ...serverRoutes(office.deps)];
    await office.close();
    const inputs = inputsOf(known);
    const names = [...viewSources.keys()].filter((name) => !name.startsWith('_'));
    const forms = names.flatMap((name) => formsOf(name, viewSources));
    assert.ok(forms.length >= 30, String(forms.length));
    assert.deepEqual(
      forms.filter(({ operation }) => !known.some(({ operationId }) => operationId === operation)),
      [],
    );
    const others = forms.flatMap(({ operation, fields }) =>
      fields.map(({ name }) => name).filter((name) => !Object.hasOwn(inputs(operation).members, name)),
    );
    assert.deepEqual([...new Set(others)].sort(), [
      ...['clear_headers', 'content_days', 'days', 'email', 'emails', 'events_days', 'expires_on', 'hours'],
      ...['messages_days', 'my_address', 'note', 'preset', 'scope', 'ttl'],
    ]);
    for (const { words } of forms) if (typeof words['said'] === 'string') Handlebars.parse(words['said']);
  });
});
