import assert from 'node:assert/strict';
import { ConfigError, readSettings } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { watchSettings } from '../../src/config/settings-state.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

function settings(written: Record<string, unknown>): Config {
  const reading = readSettings(written, { cwd: '/', privileged: true, terminal: false, hostname: 'mail.example.com' });
  assert.ok(reading.kind !== 'bad');
  return reading.config;
}

describe('the state of the settings', () => {
  it('names what is written and not in force, and what a reload would apply', () => {
    const inForce = settings({});
    const state = (written: Record<string, unknown>): unknown =>
      watchSettings({ clock: new FakeClock() }, { inForce: () => inForce, read: () => settings(written) })();
    assert.deepEqual(state({}), { kind: 'in_force' });
    assert.deepEqual(state({ log: { level: 'debug' }, http: { port: 8026 } }), {
      kind: 'edited',
      changes: { applied: ['log.level'], needRestart: ['http.port', 'http.publicUrl', 'dashboard.port'] },
    });
  });

  it('has the mistakes of an edit', () => {
    const inForce = settings({});
    const read = (): Config => {
      throw new ConfigError(['http.port: expected a port']);
    };
    assert.deepEqual(watchSettings({ clock: new FakeClock() }, { inForce: () => inForce, read })(), {
      kind: 'bad',
      mistakes: ['http.port: expected a port'],
    });
  });

  it('reads at most once in five seconds, and at once after a reload', () => {
    const clock = new FakeClock();
    let inForce = settings({});
    let readings = 0;
    const state = watchSettings(
      { clock },
      {
        inForce: () => inForce,
        read: () => {
          readings += 1;
          return settings({ log: { level: 'debug' } });
        },
      },
    );
    assert.equal(state().kind, 'edited');
    state();
    assert.equal(readings, 1);
    clock.advance(5_000);
    state();
    assert.equal(readings, 2);
    inForce = settings({ log: { level: 'debug' } });
    assert.equal(state().kind, 'in_force');
    assert.equal(readings, 3);
  });
});
