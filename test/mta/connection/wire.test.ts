import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Wire } from '../../../src/mta/connection/wire.ts';
import { startMailServer } from '../../support/fakes/fake-mail-server.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';

describe('mta/connection/wire', () => {
  /** Counts the replies that the wire has kept, after a server has sent far more than anyone asked for. */
  async function keptOfFlood(prepare: (wire: Wire) => void): Promise<number> {
    const server = await startMailServer({ tls: 'none' });
    const socket = connect({ host: '127.0.0.1', port: server.port });
    const wire = new Wire({ clock: new FakeClock() }, socket);
    await wire.read('banner', 1000);
    prepare(wire);
    server.sessions[0]?.say('250 ok\r\n'.repeat(100_000));
    server.sessions[0]?.end();
    await once(socket, 'close');
    let kept = 0;
    while (wire.takeUnread() !== null) kept++;
    await server.close();
    return kept;
  }

  it('keeps few replies of a server that floods us while nothing is awaited', async () => {
    assert.ok((await keptOfFlood(() => undefined)) <= 257);
  });

  it('keeps no reply that comes after we have said QUIT', async () => {
    assert.equal(await keptOfFlood((wire) => void wire.quit(60_000)), 0);
  });
});
