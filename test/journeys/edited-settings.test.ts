/** Settings that were edited and not reloaded: the doctor and the list of what needs a person say so until they are in force. */
import assert from 'node:assert/strict';
import { ConfigError } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

describe('settings that were edited while the server runs', () => {
  let app: TestApp;
  afterEach(() => app.stop());

  it('are named by the doctor and by status until a reload', async () => {
    let written: (() => Config) | null = null;
    app = await startTestApp({ readSettings: () => (written === null ? app.config : written()) });
    const doctor = async (): Promise<string[]> =>
      (await app.operator.call('doctor', { checks: ['settings'] })).data
        .map(({ status, why }) => `${status}: ${why}`)
        .filter((line) => !line.includes('http.publicUrl is not set'));
    const needs = async (): Promise<string[]> =>
      (await app.operator.call('needs', {})).data
        .filter(({ kind }) => kind === 'settings')
        .map(({ level, message }) => `${level}: ${message}`);
    assert.deepEqual([await doctor(), await needs()], [['ok: those that are written are in force'], []]);

    const edited: Config = { ...app.config, log: { ...app.config.log, level: 'debug' } };
    written = () => edited;
    app.clock.advance(5_000);
    assert.deepEqual(
      [await doctor(), await needs()],
      [
        ['warning: edited and not in force yet: log.level'],
        ['amber: Settings: edited and not in force yet: log.level.'],
      ],
    );

    written = () => {
      throw new ConfigError(['http.port: expected a port']);
    };
    app.clock.advance(5_000);
    assert.match((await needs()).join(), /^red: Settings: they were edited and have mistakes, .* http\.port: expected/);

    written = () => edited;
    app.app.reload(edited);
    assert.deepEqual(await needs(), []);
  });
});
