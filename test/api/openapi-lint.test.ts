/** The published description by the rules of two linters, at their strictest: no error, no warning; and imported by a validator. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { startTestApp } from '../support/harness/app.ts';

const bin = path.resolve(import.meta.dirname, '../../node_modules/.bin');

describe('api/openapi: linters', () => {
  let folder: string;
  let file: string;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'ph-openapi-'));
    file = path.join(folder, 'openapi.json');
    const app = await startTestApp();
    writeFileSync(file, (await app.get('/v1/openapi.json', { key: null })).text);
    await app.stop();
  });
  after(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  function lint(command: string, ...args: string[]): unknown {
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
    const { stdout, stderr } = spawnSync(path.join(bin, command), ['lint', file, ...args], {
      cwd: folder,
      env,
      encoding: 'utf8',
    });
    assert.ok(/[[{]/.test(stdout), `${stdout}\n${stderr}`);
    return JSON.parse(stdout);
  }

  it('Redocly, recommended-strict', () => {
    const { problems } = lint('redocly', '--extends', 'recommended-strict', '--format', 'json') as {
      problems: { message: string; ruleId: string }[];
    };
    assert.deepEqual(
      problems.map(({ ruleId, message }) => `${ruleId}: ${message}`),
      [],
    );
  });

  it('Spectral, spectral:oas', () => {
    writeFileSync(path.join(folder, '.spectral.json'), JSON.stringify({ extends: ['spectral:oas'] }));
    const problems = lint('spectral', '--format', 'json', '--quiet') as {
      code: string;
      message: string;
      path: string[];
    }[];
    assert.deepEqual(
      problems.map(({ code, message, path: at }) => `${code} ${at.join('.')}: ${message}`),
      [],
    );
  });

  it('a validator imports it as it is served, by the schema of OpenAPI 3.1, and resolves every reference', async () => {
    const validator = new Validator();
    const { valid, errors } = await validator.validate(file);
    assert.deepEqual([valid, errors ?? []], [true, []]);
    assert.equal(validator.version, '3.1');
    const resolved = validator.resolveRefs() as { paths: Record<string, object> };
    assert.ok(Object.keys(resolved.paths).length > 40);
    const schema = JSON.stringify((resolved.paths['/v1/messages/{id}'] as { get: object }).get);
    assert.ok(!schema.includes('"$ref"'), 'nothing is left that leads elsewhere');
  });

  it('the validator finds what is wrong with a broken one', async () => {
    const broken = JSON.parse(readFileSync(file, 'utf8')) as { paths: Record<string, { get: { responses: unknown } }> };
    (broken.paths['/v1/messages'] as { get: { responses: unknown } }).get.responses = [];
    assert.equal((await new Validator().validate(broken)).valid, false);
  });
});
