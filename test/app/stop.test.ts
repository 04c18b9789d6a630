import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { AppContext } from '../../src/app/core.ts';
import type { Running } from '../../src/app/running.ts';
import { stopAll } from '../../src/app.ts';

describe('app/stop', () => {
  it('closes the database only when mail on the wire has its outcome, also where another part fails to end', async () => {
    const ended: string[] = [];
    const end = (name: string) => (): Promise<void> => {
      ended.push(name);
      return Promise.resolve();
    };
    let answered = (): void => undefined;
    const onTheWire = new Promise<void>((resolve) => (answered = resolve));
    const quiet = (): void => undefined;
    const context = {
      nodes: { hasOthers: false },
      disk: { stop: quiet },
      db: { close: end('database') },
      callers: { close: end('callers') },
      hits: { close: end('hits') },
      auditLog: { close: end('audit log') },
      renderer: { close: end('renderer') },
      mailViewer: { close: end('viewer') },
      overrides: { resolver: {} },
      fatal: { error: null },
    };
    const running = {
      certificateWatch: { stop: quiet },
      shared: { stop: quiet },
      dashboard: { stop: quiet },
      figures: { stop: quiet },
      api: { close: end('api') },
      inbound: { stop: end('inbound') },
      housekeeping: { stop: end('housekeeping') },
      webhooks: { stop: () => Promise.reject(new Error('a feed could not be left')) },
      mta: {
        async stop() {
          await onTheWire;
          ended.push('mta');
        },
      },
    };
    const stopping = stopAll(context as unknown as AppContext, running as unknown as Running);
    for (let turns = 0; turns < 5; turns++) await turn();
    assert.ok(!ended.includes('database'));
    answered();
    await assert.rejects(stopping, /a feed could not be left/);
    assert.deepEqual(ended.slice(-7), ['mta', 'callers', 'hits', 'audit log', 'renderer', 'viewer', 'database']);
  });
});
