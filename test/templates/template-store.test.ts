import assert from 'node:assert/strict';
import { addAccount } from '../../src/accounts/account-store.ts';
import { newId } from '../../src/base/id.ts';
import { Problem, type ProblemCode } from '../../src/base/problem.ts';
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  findTemplate,
  pageOfTemplates,
  templateToSend,
  versionsOf,
  type Template,
  type TemplateBody,
} from '../../src/templates/template-store.ts';
import { insertRows } from '../../src/storage/rows.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const BODY: TemplateBody = {
  subject: 'Hello {{ name }}',
  from: 'Acme <hi@acme.test>',
  replyTo: ['answers@acme.test'],
  html: '<p>{{ name }}</p>',
  text: null,
  variables: [{ name: 'name', type: 'string', required: true, default: null }],
  locale: 'de-AT',
  timezone: 'Europe/Vienna',
  strict: true,
  sample: { name: 'Ana' },
};

const has =
  (code: ProblemCode, field: string) =>
  (error: unknown): boolean =>
    error instanceof Problem && error.code === code && error.field === field;

describe('templates/template-store', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let accountId: string;
  let otherId: string;
  const deps = (): { db: TempDatabase['db']; clock: FakeClock } => ({ db: temp.db, clock });
  const create = (alias: string | null, more: { publish?: boolean; accountId?: string } = {}): Promise<Template> =>
    createTemplate(deps(), {
      accountId,
      alias,
      name: alias ?? 'none',
      body: BODY,
      publish: true,
      by: 'key:shop',
      ...more,
    });
  const change = (idOrAlias: string, more: Partial<Parameters<typeof changeTemplate>[1]> = {}): Promise<Template> =>
    changeTemplate(deps(), { accountId, idOrAlias, change: null, publish: false, by: 'member:ana@acme.test', ...more });
  const toSend = (idOrAlias: string, version: number | null = null): Promise<Template | null> =>
    templateToSend(deps(), { accountId, idOrAlias, version });
  const count = async (table: string): Promise<number> => (await temp.db.prepared.all(`SELECT 1 FROM ${table}`)).length;

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    accountId = (await addAccount(deps(), { name: 'One', plan: 'standard' })).id;
    otherId = (await addAccount(deps(), { name: 'Two', plan: 'standard' })).id;
  });
  afterEach(() => temp.close());

  it('keeps who made each version', async () => {
    const { row } = await create('a');
    await change('a', { change: (body) => ({ ...body, subject: 'New' }) });
    await change('a', { publish: true });
    const { versions } = await versionsOf(deps(), { accountId, idOrAlias: row.id });
    assert.deepEqual(
      versions.map(({ version, created_by: by }) => [version, by]),
      [
        [2, 'member:ana@acme.test'],
        [1, 'key:shop'],
      ],
    );
  });

  it('gives back what it was given, by id and by alias, to its account alone', async () => {
    const made = await create('welcome');
    const ask = (wish: { accountId: string; idOrAlias: string; version?: number }) => findTemplate(deps(), wish);
    assert.deepEqual(made.body, BODY);
    assert.deepEqual(await ask({ accountId, idOrAlias: made.row.id }), made);
    assert.deepEqual(await ask({ accountId, idOrAlias: 'welcome' }), made);
    for (const idOrAlias of [made.row.id, 'welcome'])
      await assert.rejects(ask({ accountId: otherId, idOrAlias }), has('not_found', 'id'));
    await assert.rejects(ask({ accountId, idOrAlias: 'welcome', version: 2 }), has('not_found', 'version'));
  });

  it('refuses more than ten thousand templates of an account', async () => {
    const { row } = await create(null);
    const templates = Array.from({ length: 9999 }, () => ({ ...row, id: newId('tpl', clock.now()) }));
    await temp.db.commit.transact((tx) => insertRows(tx, [{ templates }]));
    await assert.rejects(create('more'), (error) => error instanceof Problem && error.code === 'invalid_state');
    await create('more', { accountId: otherId });
    await deleteTemplate(deps(), { accountId, idOrAlias: row.id });
    await create('more');
  }).timeout(20_000);

  it('has an alias once in an account', async () => {
    const first = await create('welcome');
    await create('welcome', { accountId: otherId });
    const second = await create('other');
    await create(null);
    await create(null);
    await assert.rejects(create('welcome'), has('already_exists', 'alias'));
    await assert.rejects(change(second.row.id, { alias: 'welcome' }), has('already_exists', 'alias'));
    assert.equal((await change('welcome', { alias: 'welcome' })).row.id, first.row.id);
    assert.equal((await change('welcome', { alias: null })).row.alias, null);
    assert.equal((await create('welcome')).row.alias, 'welcome');
  });

  it('lets one of two that want the same alias at once have it', async () => {
    const results = await Promise.allSettled([create('welcome'), create('welcome')]);
    assert.deepEqual(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  });

  it('makes a version of a change of content, and none of another name', async () => {
    await create('welcome');
    clock.advance(1000);
    const renamed = await change('welcome', { name: 'Other' });
    assert.deepEqual([renamed.version, renamed.row.name, renamed.row.updated_at], [1, 'Other', clock.now()]);
    const changed = await change('welcome', { change: (body) => ({ ...body, subject: 'Second' }) });
    assert.deepEqual([changed.version, changed.row.published_version], [2, 1]);
    assert.deepEqual(changed.body, { ...BODY, subject: 'Second' });
    assert.deepEqual((await toSend('welcome'))?.body, { ...BODY, sample: null }, 'a send reads no sample');
    assert.equal((await toSend('welcome', 2))?.body.subject, 'Second');
    assert.equal(await toSend('welcome', 3), null);
    const published = await change('welcome', { publish: true });
    assert.deepEqual([published.row.published_version, published.row.published_at], [2, clock.now()]);
    const again = clock.now();
    clock.advance(1000);
    assert.equal((await change('welcome', { publish: true })).row.published_at, again, 'it was published already');
    const { versions } = await versionsOf(deps(), { accountId, idOrAlias: 'welcome' });
    assert.deepEqual(
      versions.map(({ version }) => version),
      [2, 1],
    );
  });

  it('keeps the last thousand versions and the published one', async () => {
    await create('welcome');
    const { row } = await create('other');
    const edit = (subject: string): Promise<Template> =>
      change('welcome', { change: (body) => ({ ...body, subject }) });
    for (let version = 2; version <= 1001; version++) await edit(`S${String(version)}`);
    assert.deepEqual([(await toSend('welcome'))?.version, (await toSend('welcome', 2))?.version], [1, 2]);
    await edit('S1002');
    await change('welcome', { name: 'no version of its own' });
    assert.deepEqual([(await toSend('welcome'))?.version, await toSend('welcome', 2)], [1, null]);
    assert.equal((await toSend('welcome', 3))?.body.subject, 'S3');
    await change('welcome', { publish: true });
    await edit('S1003');
    assert.deepEqual([(await toSend('welcome'))?.version, await toSend('welcome', 1)], [1002, null]);
    assert.equal(await count('template_versions'), 1000 + 1);
    assert.equal((await toSend(row.id))?.version, 1, 'of another template');
  }).timeout(60_000);

  it('sends no draft, nothing of another account, and nothing unknown', async () => {
    const draft = await create('draft', { publish: false });
    const other = await create('theirs', { accountId: otherId });
    for (const idOrAlias of ['draft', draft.row.id, 'theirs', other.row.id, 'nowhere', newId('tpl', clock.now())])
      assert.equal(await toSend(idOrAlias), null, idOrAlias);
    assert.equal((await toSend('draft', 1))?.version, 1, 'a version that is asked for by number');
  });

  it('writes nothing of a change whose content is refused', async () => {
    await create('welcome');
    const refuse = (): TemplateBody => {
      throw new Problem('template_syntax_error', 'no', { field: 'html' });
    };
    await assert.rejects(change('welcome', { change: refuse, name: 'Other' }), has('template_syntax_error', 'html'));
    assert.equal((await findTemplate(deps(), { accountId, idOrAlias: 'welcome' })).row.name, 'welcome');
    assert.equal(await count('template_versions'), 1);
  });

  it('deletes all versions, of its account alone', async () => {
    const made = await create('welcome');
    await change('welcome', { change: (body) => body });
    await assert.rejects(
      deleteTemplate(deps(), { accountId: otherId, idOrAlias: made.row.id }),
      has('not_found', 'id'),
    );
    await deleteTemplate(deps(), { accountId, idOrAlias: 'welcome' });
    assert.deepEqual([await count('templates'), await count('template_versions')], [0, 0]);
    await assert.rejects(deleteTemplate(deps(), { accountId, idOrAlias: 'welcome' }), has('not_found', 'id'));
  });

  it('pages both ways, each template in its latest version, without what is long', async () => {
    const ids: string[] = [];
    for (const alias of ['a', 'b', 'c']) {
      ids.unshift((await create(alias)).row.id);
      clock.advance(1);
    }
    await change('b', { change: (body) => ({ ...body, subject: 'Second' }) });
    await create('theirs', { accountId: otherId });
    const page = async (wish: { limit: number; after?: string; before?: string }): Promise<unknown[]> => {
      const { templates, hasMore } = await pageOfTemplates(deps(), { accountId, ...wish });
      return [templates.map(({ row, version }) => `${row.alias ?? ''}${String(version)}`).join(' '), hasMore];
    };
    assert.deepEqual(await page({ limit: 2 }), ['c1 b2', true]);
    assert.deepEqual(await page({ limit: 2, after: ids[1] ?? '' }), ['a1', false]);
    assert.deepEqual(await page({ limit: 1, before: ids[2] ?? '' }), ['b2', true]);
    assert.deepEqual(await page({ limit: 3, after: ids[2] ?? '' }), ['', false]);
    const { templates } = await pageOfTemplates(deps(), { accountId, limit: 3 });
    assert.deepEqual(templates[1]?.body, { ...BODY, subject: 'Second', html: null, sample: null });
  });
});
