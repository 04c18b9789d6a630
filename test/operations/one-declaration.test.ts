/** An operation that is declared once, with the side that people see, appears at every door. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Command } from '@commander-js/extra-typings';
import { z } from 'zod';
import { openapiDocument } from '../../src/api/openapi.ts';
import type { Route } from '../../src/api/route.ts';
import { check } from '../../src/base/check.ts';
import type { Context } from '../../src/cli/cli.ts';
import { addCommands } from '../../src/cli/derive.ts';
import { inputsOf } from '../../src/dashboard/view-forms.ts';
import { columns, present } from '../../src/presentations/presentation.ts';
import { startHarness, type Harness } from '../api/harness.ts';

interface Gadget {
  object: 'gadget';
  id: string;
  name: string;
}

const gadget = z
  .strictObject({ object: z.literal('gadget'), id: z.string(), name: z.string().describe('What people call it.') })
  .meta({ id: 'Gadget' });

const input = z.strictObject({ name: z.string().max(20).describe('What people call it.') }).meta({ id: 'NewGadget' });

const declared: Route = {
  method: 'POST',
  path: '/v1/gadgets',
  operationId: 'createGadget',
  tag: 'gadgets',
  summary: 'Make a gadget',
  description: 'The names of gadgets need not differ.',
  scope: ['template'],
  act: { says: 'made the gadget {name}', type: 'gadget', named: 'name', keeps: ['name'] },
  body: input,
  responses: { 201: { description: 'It is made.', schema: gadget } },
  run: ({ json }) => ({ status: 201, body: { object: 'gadget', id: 'gad_1', ...check(input, json) } }),
};

const seen = present<Gadget>({
  command: 'gadgets create',
  operation: 'createGadget' as never,
  says: 'make a gadget',
  input: [{ flag: '<name>', says: 'what people call it' }],
  columns: columns<Gadget>('id', 'name'),
  examples: ['posthorn gadgets create horn'],
});

describe('an operation that is declared once', () => {
  let harness: Harness;
  before(async () => {
    harness = await startHarness({ routes: [declared] });
  });
  after(() => harness.stop());

  const document = openapiDocument([declared], { publicUrl: 'http://api.test', version: '1.0.0' });

  it('is an endpoint of the API, which checks its input and leaves its line in the audit', async () => {
    const made = await harness.send('POST', '/v1/gadgets', { body: { name: 'horn' } });
    assert.deepEqual([made.status, made.json], [201, { object: 'gadget', id: 'gad_1', name: 'horn' }]);
    const refused = await harness.send('POST', '/v1/gadgets', { body: { name: 7 } });
    assert.deepEqual([refused.status, refused.error.field], [400, 'name']);
    assert.equal(harness.audits[0]?.operation, 'createGadget');
  });

  it('is in the description, from which the documents are made', () => {
    const { post } = (document['paths'] as Record<string, { post: Record<string, unknown> }>)['/v1/gadgets'] ?? {};
    assert.deepEqual(
      [post?.['operationId'], post?.['summary'], post?.['tags']],
      ['createGadget', 'Make a gadget', ['gadgets']],
    );
  });

  it('has types and a method in the client', () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-client-'));
    const source = path.join(folder, 'openapi.json');
    writeFileSync(source, JSON.stringify(document));
    const script = path.resolve(import.meta.dirname, '../../src/bin/client-types.mjs');
    const { status, stderr } = spawnSync(process.execPath, [script, source, folder], { encoding: 'utf8' });
    assert.deepEqual([status, stderr], [0, '']);
    const [types, methods] = ['types.ts', 'operations.ts'].map((file) => readFileSync(path.join(folder, file), 'utf8'));
    rmSync(folder, { recursive: true });
    assert.match(types ?? '', /export interface Gadget \{[^}]*\bname: string;/);
    assert.match(methods ?? '', /class Gadgets [^]*create\(\s*body: Operations\['createGadget'\]\['body'\]/);
  });

  it('is a command with help, a table and --json', async () => {
    const run = async (...args: string[]): Promise<string> => {
      const out: string[] = [];
      const call = async (_: string, body: object): Promise<unknown> =>
        (await harness.send('POST', '/v1/gadgets', { body })).json;
      const context = {
        operate: (act: (operator: object) => unknown) => act({ call }),
        print: (asJson: boolean, record: unknown, lines: () => readonly string[]) =>
          void out.push(...(asJson ? [JSON.stringify(record)] : lines())),
      } as unknown as Context;
      const program = new Command().exitOverride().configureOutput({ writeOut: (text) => void out.push(text) });
      addCommands(program, context, [seen]);
      await program.parseAsync(args, { from: 'user' }).catch((error: unknown) => {
        assert.equal((error as { code: string }).code, 'commander.helpDisplayed');
      });
      return out.join('\n');
    };
    assert.match(await run('gadgets', 'create', '--help'), /make a gadget\n[^]*what people call it\n[^]*--json/);
    assert.equal(await run('gadgets', 'create', 'horn'), 'ID     NAME\ngad_1  horn');
    assert.deepEqual(JSON.parse(await run('gadgets', 'create', 'horn', '--json')), {
      object: 'gadget',
      id: 'gad_1',
      name: 'horn',
    });
  });

  it('gives the forms of the dashboard the scope that they need, and the limits of their fields', () => {
    const { scope, members } = inputsOf([declared])('createGadget');
    assert.equal(scope, 'template');
    const { isRequired, maxLength } = { maxLength: null, ...members['name'] };
    assert.deepEqual([isRequired, maxLength], [true, 20]);
  });
});
