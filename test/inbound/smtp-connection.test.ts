/** The members of smtp-server that are used beyond its documentation: a new version must still have them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { SMTPServer } from 'smtp-server';
import {
  cutConnection,
  endConnection,
  findConnection,
  greetAtOnce,
  JOKES,
  keepEnhancedCodes,
  refuseCommand,
  type SmtpConnection,
} from '../../src/inbound/smtp-connection.ts';

describe('inbound/smtp-connection', () => {
  let server: SMTPServer;
  let client: net.Socket;
  let replies: { code: number; isCoded: boolean }[];

  /** A client that has said EHLO, and its connection. */
  async function greeted(): Promise<SmtpConnection> {
    replies = [];
    const met = new Promise<SmtpConnection>((resolve) => {
      server = new SMTPServer({
        logger: false,
        authOptional: true,
        disableReverseLookup: true,
        hideENHANCEDSTATUSCODES: false,
        onConnect(session, callback) {
          const connection = findConnection(server, session.id) ?? assert.fail('no connection');
          keepEnhancedCodes(connection, (code, { isCoded }) => void replies.push({ code, isCoded }));
          resolve(connection);
          callback();
        },
        onMailFrom(_address, _session, callback) {
          callback(Object.assign(new Error('4.7.1 come back later'), { responseCode: 450 }));
        },
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    client = net.connect((server.server.address() as net.AddressInfo).port, '127.0.0.1').setEncoding('latin1');
    const connection = await met;
    await said(/^220 .*\r\n/);
    client.write('EHLO a.test\r\n');
    await said(/^250 .*\r\n/m);
    return connection;
  }

  async function said(pattern: RegExp): Promise<string> {
    let text = '';
    while (!pattern.test(text)) text += String((await once(client, 'data'))[0]);
    return text;
  }

  afterEach(async () => {
    client.destroy();
    await new Promise<void>((resolve) => {
      server.close(resolve);
    });
  });

  it('greets at once if it is told to, and once', async () => {
    server = new SMTPServer({
      logger: false,
      disableReverseLookup: true,
      onConnect: (_session, callback) => callback(),
    });
    greetAtOnce(server);
    const connect = server.connect.bind(server);
    const greeted = new Promise((resolve) => {
      server.connect = (...given) => {
        connect(...given);
        resolve([...server.connections][0]?._ready);
      };
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    client = net.connect((server.server.address() as net.AddressInfo).port, '127.0.0.1').setEncoding('latin1');
    assert.equal(await greeted, true);
    [...server.connections][0]?.connectionReady();
    client.write('QUIT\r\n');
    assert.match(await said(/^221 /m), /^220 [^\r\n]*\r\n221 [^\r\n]*\r\n$/);
  });

  it('adds an enhanced code to the replies of smtp-server only', async () => {
    await greeted();
    client.write('MAIL FROM:<a@a.test>\r\n');
    assert.match(await said(/\r\n/), /^450 4\.7\.1 come back later\r\n/);
    client.write('NOOP\r\n');
    assert.match(await said(/\r\n/), /^250 2\.\d\.\d /);
    assert.deepEqual(replies.slice(-2), [
      { code: 450, isCoded: true },
      { code: 250, isCoded: false },
    ]);
  });

  it('refuses a command that is switched off as it was told, and knows no jokes', async () => {
    const connection = await greeted();
    connection.session.disabledCommands = [...JOKES, 'AUTH'];
    refuseCommand(connection, 'AUTH', { code: 538, text: '5.7.11 not here' });
    for (const [command, reply] of [
      ['AUTH PLAIN x', /^538 5\.7\.11 not here\r\n/],
      ['auth login', /^538 5\.7\.11 not here\r\n/],
      ...['WIZ x', 'SHELL', 'KILL', 'NONSENSE'].map((joke) => [joke, /^500 5\.5\.2 Error: command not/] as const),
    ] as const) {
      client.write(`${command}\r\n`);
      assert.match(await said(/\r\n/), reply);
    }
  });

  it('ends a connection with a last reply', async () => {
    const connection = await greeted();
    endConnection(connection, 421, '4.3.2 stopping');
    assert.match(await said(/\r\n/), /^421 4\.3\.2 stopping\r\n/);
    await once(client, 'end');
    assert.equal(findConnection(server, connection.id), undefined);
  });

  it('frees the socket of a client that does not close its side', async () => {
    const connection = await greeted();
    client.allowHalfOpen = true;
    const freed = once(connection._socket, 'close');
    cutConnection(connection, 421, '4.4.2 too slow');
    assert.match(await said(/\r\n/), /^421 4\.4\.2 too slow\r\n/);
    await freed;
  });
});
