/** Errors of real handshakes: their texts come from OpenSSL, whose words change with its versions. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import tls from 'node:tls';
import { tlsFaultText } from '../../src/net/tls-fault.ts';

async function faultOf(server: net.Server, options: tls.ConnectionOptions = {}): Promise<string> {
  const accepted = new Set<net.Socket>();
  server.on('connection', (one: net.Socket) => accepted.add(one));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = tls.connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options });
  try {
    const [error] = (await once(socket, 'error')) as [Error];
    return tlsFaultText(error);
  } finally {
    socket.destroy();
    for (const one of accepted) one.destroy();
    await new Promise((resolve) => server.close(resolve));
  }
}

describe('tlsFaultText', () => {
  it('says that there is no TLS on the port', async () => {
    const server = net.createServer((socket) => {
      socket.on('error', () => undefined);
      socket.end('220 mail.example ESMTP\r\n');
    });
    assert.match(await faultOf(server), /^TLS failed: the other side does not speak TLS on this port \(/);
  });

  it('says that no version is in common', async () => {
    const server = tls.createServer({ maxVersion: 'TLSv1.2', minVersion: 'TLSv1.2' });
    server.on('tlsClientError', () => undefined);
    assert.match(
      await faultOf(server, { minVersion: 'TLSv1.3' }),
      /^TLS failed: the other side and this one have no version of TLS in common \(/,
    );
  });

  it('says that no cipher is in common', async () => {
    const server = tls.createServer({ maxVersion: 'TLSv1.2' });
    server.on('tlsClientError', () => undefined);
    assert.match(await faultOf(server, { maxVersion: 'TLSv1.2' }), /no cipher in common, or it wants a certificate/);
  });

  it('leaves other errors as they are, and reasons that it does not know', () => {
    assert.equal(tlsFaultText(new Error('read ECONNRESET')), 'read ECONNRESET');
    assert.equal(
      tlsFaultText(new Error('00A0:error:0A00:SSL routines:f:odd thing:../x.c:1:')),
      'TLS failed: odd thing',
    );
  });
});
