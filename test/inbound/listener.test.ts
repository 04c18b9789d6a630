/** Tests a listener with difficult clients: clients that are slow, many, loud or faulty, while an ordinary one is served. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import tls from 'node:tls';
import { makeSelfSigned } from '../../src/config/own-certificate.ts';
import { Listener, type Handlers } from '../../src/inbound/listener.ts';
import { type ListenerLimits, Tally } from '../../src/inbound/mail-intake.ts';
import { refuse } from '../../src/inbound/smtp-refusal.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const SILENT = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const log = { ...SILENT, child: () => log };
const certificate = makeSelfSigned('mx.test', Date.parse('2026-01-01T00:00:00Z'));

interface Client {
  socket: net.Socket;
  text(): string;
  /** Resolves when what came matches. */
  said(pattern: RegExp): Promise<void>;
  write(text: string): void;
  closed: Promise<void>;
}

function connect(port: number, from = '127.0.0.1', isSecure = false): Client {
  const to = { port, host: '127.0.0.1', localAddress: from };
  const socket = isSecure ? tls.connect({ ...to, rejectUnauthorized: false }) : net.connect(to);
  let text = '';
  let wake: () => void = () => undefined;
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part;
    wake();
  });
  socket.on('error', () => undefined);
  const closed = new Promise<void>((resolve) =>
    socket.once('close', () => {
      resolve();
      wake();
    }),
  );
  return {
    socket,
    text: () => text,
    async said(pattern) {
      while (!pattern.test(text)) {
        assert.ok(!socket.destroyed, `closed after ${JSON.stringify(text)}`);
        await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    write: (more) => void socket.write(more, 'latin1'),
    closed,
  };
}

describe('inbound/listener', () => {
  let clock: FakeClock;
  let listener: Listener<never>;
  let port: number;
  const mails: { text: string; size: number }[] = [];

  const begin = async (
    limits: Partial<ListenerLimits> = {},
    handlers: Partial<Handlers<never>> = {},
    memory = new Tally(),
    keepBytes = 1000,
    isSecure = false,
  ): Promise<void> => {
    clock = new FakeClock(Date.parse('2026-01-31T09:30:00Z'));
    mails.length = 0;
    listener = new Listener(
      { clock, log },
      {
        host: '127.0.0.1',
        port: 0,
        hostname: 'mx.test',
        isSecure,
        certificate,
        size: 10_000,
        keepBytes,
        maxRecipients: 3,
        smtputf8: true,
        // The idle timeout of smtp-server is in real time, which a slow machine may need.
        limits: { idleMs: 600_000, ...limits },
        memory,
      },
      {
        sender: () => Promise.resolve(null),
        recipient: (_session, address) =>
          Promise.resolve(address.startsWith('no') ? refuse(550, '5.7.1 we do not relay') : null),
        data: (_session, mail, size) => {
          mails.push({ text: mail.toString(), size });
          return Promise.resolve('2.0.0 taken');
        },
        ...handlers,
      },
    );
    port = await listener.listen();
  };
  afterEach(() => listener.close());

  const greeted = async (from?: string): Promise<Client> => {
    const client = connect(port, from);
    await client.said(/^220 /m);
    return client;
  };
  const deliver = async (mail = 'Subject: x\r\n\r\nx'): Promise<string> => {
    const client = await greeted();
    client.write('EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<yes@mx.test>\r\nDATA\r\n');
    await client.said(/^354 /m);
    client.write(`${mail}\r\n.\r\n`);
    await client.said(/^(?:250 2\.0\.0|552|452|451) /m);
    client.socket.destroy();
    return client.text();
  };

  it('slows a session that guesses keys, and no other: a good key is taken at once', async () => {
    await begin(
      {},
      {
        isTrusted: () => true,
        authenticate: (_session, _name, password) =>
          Promise.resolve(
            password === 'good' ? { user: 'ana' as never } : refuse(535, '5.7.8 there is no such API key'),
          ),
      },
    );
    const auth = (key: string): string => `AUTH PLAIN ${Buffer.from(`\0apikey\0${key}`).toString('base64')}\r\n`;
    const guesser = await greeted();
    guesser.write('EHLO a.test\r\n');
    await guesser.said(/^250 /m);
    for (let n = 1; n <= 10; n++) {
      const waiting = new Promise<void>((resolve) => {
        const { sleep } = clock;
        clock.sleep = (ms) => {
          clock.sleep = sleep;
          assert.equal(ms, 1000 * Math.min(5, n));
          const slept = sleep.call(clock, ms);
          resolve();
          return slept;
        };
      });
      guesser.write(auth(`wrong ${String(n)}`));
      await waiting;
      clock.advance(5000);
      await guesser.said(
        n === 10 ? /421 4\.7\.0 too many failed sign-ins/ : new RegExp(`(?:535 [^\\n]*\\n){${String(n)}}`),
      );
    }
    await guesser.closed;
    const good = await greeted();
    good.write(`EHLO a.test\r\n${auth('good')}`);
    await good.said(/^235 /m);
    good.socket.destroy();
  });

  const gone: [how: string, leave: (client: Client) => void][] = [
    ['closes', (client) => client.socket.end()],
    ['breaks off', (client) => client.socket.resetAndDestroy()],
  ];
  for (const [how, leave] of gone) {
    for (const part of ['', 'Subject: x\r\n\r\nhalf a mail']) {
      it(`bears a client that ${how} ${part === '' ? 'before the first octet of the mail' : 'in the middle of the mail'}`, async () => {
        await begin();
        const client = await greeted();
        client.write('EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<y@mx.test>\r\nDATA\r\n');
        await client.said(/^354 /m);
        client.write(part);
        leave(client);
        await client.closed;
        // The listener sees the end of one connection before the beginning of the next.
        const next = await greeted();
        next.write('EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<y@mx.test>\r\nDATA\r\n');
        await next.said(/^354 /m);
        next.write('Subject: y\r\n\r\nwhole\r\n.\r\n');
        await next.said(/^250 2\.0\.0 taken/m);
        assert.deepEqual(
          mails.map(({ text }) => text),
          ['Subject: y\r\n\r\nwhole\r\n'],
        );
        next.socket.destroy();
      });
    }
  }

  it('replies with the enhanced codes of the handlers', async () => {
    await begin();
    const client = await greeted();
    client.write('EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<no@mx.test>\r\nBOGUS\r\n');
    await client.said(/^500 /m);
    const text = client.text();
    assert.match(text, /^550 5\.7\.1 we do not relay\r$/m);
    assert.match(text, /^250 2\.1\.0 /m);
    assert.match(text, /^500 5\.5\.2 /m);
    client.socket.destroy();
  });

  it('keeps the front of a large mail, and refuses one that is too large', async () => {
    await begin();
    await deliver(`Subject: x\r\n\r\n${'y'.repeat(5000)}`);
    assert.deepEqual(
      mails.map(({ text, size }) => [text.length, size]),
      [[1000, 5016]],
    );
    assert.match(await deliver('z'.repeat(20_000)), /^552 5\.3\.4 /m);
  });

  for (const [what, ms, prepare] of [
    ['says nothing', 60_000, () => undefined],
    [
      'drips a command',
      60_000,
      (client: Client) => {
        client.write('EH');
      },
    ],
    [
      'stops after MAIL',
      60_000,
      (client: Client) => {
        client.write('EHLO a.test\r\nMAIL FROM:<a@b.test>\r\n');
      },
    ],
    [
      'stops in the middle of a mail',
      600_000,
      (client: Client) => {
        client.write('EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<y@mx.test>\r\nDATA\r\nSubject: x\r\n');
      },
    ],
  ] as const)
    it(`ends a client that ${what}, and serves others meanwhile`, async () => {
      await begin();
      const client = await greeted();
      prepare(client);
      if (what.startsWith('stops after')) await client.said(/^250 2\.1\.0/m);
      if (what.startsWith('stops in')) await client.said(/^354 /m);
      assert.match(await deliver(), /^250 2\.0\.0 taken/m);
      clock.advance(ms);
      await client.closed;
      assert.match(client.text(), /^421 4\.4\.2 /m);
    });

  it('ends a session that goes on for ever', async () => {
    await begin();
    const client = await greeted();
    client.write('EHLO a.test\r\n');
    await client.said(/^250 /m);
    // A command comes every 20 s, before the client's patience for one ends.
    for (let commands = 0; commands < 89; commands++) {
      clock.advance(20_000);
      const before = client.text().length;
      client.write('MAIL FROM:<a@b.test>\r\nRSET\r\n');
      while (!/2\.1\.0[\s\S]*250/.test(client.text().slice(before)) && !client.socket.destroyed)
        await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(client.socket.destroyed, false);
    clock.advance(20_000);
    await client.closed;
    assert.match(client.text(), /421 4\.4\.2 /);
  });

  it('holds off a flood from one address', async () => {
    await begin({ connectionsPerAddress: 2 });
    const [one, two] = [await greeted(), await greeted()];
    const three = connect(port);
    await three.closed;
    assert.match(three.text(), /^421 4\.7\.0 too many connections at once/m);
    one.socket.destroy();
    await one.closed;
    while (true) {
      const again = connect(port);
      await Promise.race([again.closed, again.said(/^220 /m).catch(() => undefined)]);
      const isIn = /^220 /m.test(again.text());
      again.socket.destroy();
      if (isIn) break;
    }
    two.socket.destroy();
  });

  for (const [limit, told, text] of [
    ['connectionsPerNetwork', 'connections_network', /^421 4\.7\.0 too many connections at once from your network/m],
    ['connections', 'connections', /^421 4\.3\.2 too many connections/m],
  ] as const)
    it(`holds off a flood by ${limit}, and says so`, async () => {
      const over: string[] = [];
      await begin(
        { [limit]: 2 },
        {
          overLimit: (name) => {
            if (name === told) over.push(name);
          },
          recipient: (_session, proof) => Promise.resolve({ proof, hold: null }),
        },
      );
      const clients = [await greeted(), await greeted()];
      for (const [n, client] of clients.entries()) {
        client.write(`EHLO a.test\r\nMAIL FROM:<>\r\nRCPT TO:<yes${String(n)}@mx.test>\r\n`);
        await client.said(/^250 2\.1\.5/m);
      }
      const one = connect(port);
      await one.closed;
      assert.match(one.text(), text);
      assert.deepEqual(over, [told]);
      for (const client of clients) client.socket.destroy();
    });

  const RCPT = (address: string): string => `EHLO a.test\r\nMAIL FROM:<>\r\nRCPT TO:<${address}>\r\n`;
  const inData = async (from: string): Promise<Client> => {
    const client = await greeted(from);
    client.write(`${RCPT('postmaster@mx.test')}DATA\r\n`);
    await client.said(/^354 /m);
    client.write('x\r\n');
    return client;
  };
  const end = (clients: readonly Client[]): void => {
    for (const { socket } of clients) socket.destroy();
  };

  it('a few networks that sit in DATA do not keep the bounce of another out', async () => {
    const over: string[] = [];
    await begin({ connections: 6, connectionsPerNetwork: 4 }, { overLimit: (name) => over.push(name) });
    const few = [await inData('127.20.1.1'), await inData('127.20.1.2')];
    const most: Client[] = [];
    for (let n = 1; n <= 4; n++) most.push(await inData(`127.20.0.${String(n)}`));
    const bounce = await greeted('127.99.0.1');
    await most[0]?.closed;
    assert.match(most[0]?.text() ?? '', /^421 4\.3\.2 too many connections/m);
    bounce.write(`${RCPT('yes@mx.test')}DATA\r\n`);
    await bounce.said(/^354 /m);
    bounce.write('Subject: x\r\n\r\nx\r\n.\r\n');
    await bounce.said(/^250 2\.0\.0 taken/m);
    assert.deepEqual(over, ['connections']);
    for (const { socket } of [...few, ...most.slice(1)]) assert.equal(socket.destroyed, false);
    end([bounce, ...few, ...most]);
  });

  it('a session whose mail is being stored does not give way: its client would send the mail again', async () => {
    let finish: (reply: string) => void = () => undefined;
    await begin({ connections: 2 }, { data: () => new Promise((resolve) => (finish = resolve)) });
    const storing = await inData('127.20.0.1');
    storing.write('.\r\n');
    const idle = await greeted('127.20.0.2');
    const next = await greeted('127.21.0.1');
    await idle.closed;
    finish('2.0.0 taken');
    await storing.said(/^250 2\.0\.0 taken/m);
    end([storing, next]);
  });

  it('a session with a proof does not give way, and one proof is good for one session', async () => {
    const recipient = (_session: unknown, address: string) =>
      Promise.resolve({ proof: address.startsWith('token') ? address : null, hold: null });
    await begin({ connections: 3 }, { recipient });
    const [proven, again, idle] = [
      await greeted('127.20.0.1'),
      await greeted('127.20.0.2'),
      await greeted('127.21.0.1'),
    ];
    for (const client of [proven, again]) {
      client.write(RCPT('token1@mx.test'));
      await client.said(/^250 2\.1\.5/m);
    }
    const next = await greeted('127.22.0.1');
    await again.closed;
    assert.match(again.text(), /^421 4\.3\.2 /m);
    for (const { socket } of [proven, idle]) assert.equal(socket.destroyed, false);
    end([proven, idle, next]);
  });

  it('ends a mail that trickles, and lets a slow one come whole', async () => {
    const memory = new Tally();
    await begin({ dataPace: 100 }, {}, memory, 10_000);
    const [slow, trickle] = [await inData('127.20.0.1'), await inData('127.20.0.1')];
    // After 30 s the octets of the trickle may have given it back a little time, where they have all come: it has none left after 35 s.
    for (let step = 0; step < 7; step++) {
      slow.write(`${'y'.repeat(598)}\r\n`);
      trickle.write('x\r\n');
      // Up to a line of each may still be looked at for the dot that ends the mail.
      while (memory.total < 600 * step + 500) await new Promise((resolve) => setImmediate(resolve));
      clock.advance(5000);
    }
    await trickle.closed;
    assert.match(trickle.text(), /^421 4\.4\.2 the mail came too slowly/m);
    slow.write('.\r\n');
    await slow.said(/^250 2\.0\.0 taken/m);
    assert.equal(memory.total, 0);
    end([slow]);
  });

  it('gives no network all of the memory', async () => {
    const over: string[] = [];
    await begin({ heldBytesPerNetwork: 500 }, { overLimit: (name) => over.push(name) });
    assert.match(await deliver(`Subject: x\r\n\r\n${'y'.repeat(900)}`), /^452 4\.3\.1 /m);
    assert.match(await deliver(), /^250 2\.0\.0 taken/m);
    assert.deepEqual(over, ['memory_network']);
  });

  it('holds off who comes too often', async () => {
    await begin({ connectionsPerMinute: 2 });
    for (let i = 0; i < 2; i++) (await greeted()).socket.destroy();
    const third = connect(port);
    await third.closed;
    assert.match(third.text(), /^421 4\.7\.0 too many connections: come back in a minute/m);
    clock.advance(60_000);
    (await greeted()).socket.destroy();
  });

  it('keeps places for a trusted network, whose clients may come at any rate, beside those of strangers', async () => {
    const strangers = { connections: 1, connectionsPerAddress: 1, connectionsPerMinute: 2 };
    await begin({ ...strangers, clientConnections: 3 }, { isTrusted: (ip) => ip === '127.0.0.2' });
    const stranger = await greeted();
    for (let i = 0; i < 5; i++) (await greeted('127.0.0.2')).socket.destroy();
    const many = [await greeted('127.0.0.2'), await greeted('127.0.0.2'), await greeted('127.0.0.2')];
    assert.ok(![stranger, ...many].some(({ socket }) => socket.destroyed));
    // Beyond its places it has those of strangers, in which an old session gives way.
    many.push(await greeted('127.0.0.2'));
    await stranger.closed;
    assert.match(stranger.text(), /^421 4\.3\.2 too many connections: try again later/m);
    end(many);
  });

  describe('clients that sign in', () => {
    const authenticate = () => Promise.resolve({ user: 'ana' as never });
    const strangers = { connections: 4, connectionsPerAddress: 2, connectionsPerMinute: 3 };
    const signedIn = async (code = 235): Promise<Client> => {
      const client = connect(port, '127.0.0.2', true);
      await client.said(/^220 /m);
      client.write(`EHLO a.test\r\nAUTH PLAIN ${Buffer.from('\0apikey\0good').toString('base64')}\r\n`);
      await client.said(new RegExp(`^${String(code)} `, 'm'));
      return client;
    };

    it('have places of their own, and no limit in a minute', async () => {
      await begin({ ...strangers, clientConnections: 5 }, { authenticate }, new Tally(), 1000, true);
      for (let i = 0; i < 10; i++) {
        const client = await signedIn();
        client.socket.destroy();
      }
      const many = [];
      for (let i = 0; i < 5; i++) many.push(await signedIn());
      end(many);
    });

    it('have the limits that are set for them', async () => {
      const limits = { ...strangers, clientConnections: 5, clientConnectionsPerMinute: 2 };
      await begin(limits, { authenticate }, new Tally(), 1000, true);
      end([await signedIn(), await signedIn()]);
      const third = await signedIn(421);
      assert.match(third.text(), /^421 4\.7\.0 too many connections: come back in a minute/m);
      end([third]);
    });

    it('do not make room for guessers at their address: one that has not signed in gives way', async () => {
      await begin({ ...strangers, clientConnections: 2 }, { authenticate }, new Tally(), 1000, true);
      const first = await signedIn();
      const idle = connect(port, '127.0.0.2', true);
      await idle.said(/^220 /m);
      const second = await signedIn();
      await idle.closed;
      assert.ok(!first.socket.destroyed && !second.socket.destroyed);
      end([first, second]);
    });
  });

  it('takes mail behind STARTTLS without a second EHLO, as Postfix does', async () => {
    await begin({}, { authenticate: () => Promise.resolve({ user: 'ana' as never }) });
    const client = await greeted();
    client.write('EHLO a.test\r\nSTARTTLS\r\n');
    await client.said(/^220 2\.0\.0 /m);
    client.socket.removeAllListeners('data').setEncoding(undefined);
    const secure = tls.connect({ socket: client.socket, rejectUnauthorized: false });
    let text = '';
    secure.setEncoding('latin1').on('data', (part: string) => (text += part));
    await once(secure, 'secureConnect');
    secure.write(`AUTH PLAIN ${Buffer.from('\0apikey\0good').toString('base64')}\r\n`);
    secure.write('MAIL FROM:<a@b.test>\r\nQUIT\r\n');
    await client.closed;
    assert.match(text, /^235 .*\r\n250 .*\r\n221 /);
  });

  it('ends a session that makes one error after the other', async () => {
    await begin({ errors: 5 });
    const client = await greeted();
    client.write(`EHLO a.test\r\nMAIL FROM:<a@b.test>\r\n${'RCPT TO:<no@mx.test>\r\n'.repeat(8)}`);
    await client.closed;
    assert.equal(client.text().match(/^550 /gm)?.length, 5);
    assert.match(client.text(), /^421 4\.7\.0 too many errors/m);
  });

  it('takes no more mail at once than memory has room for', async () => {
    await begin({ heldBytes: 500 });
    assert.match(await deliver(`Subject: x\r\n\r\n${'y'.repeat(900)}`), /^452 4\.3\.1 /m);
    assert.match(await deliver(), /^250 2\.0\.0 taken/m);
  });

  it('shares the memory limit with listeners that have the same count', async () => {
    const memory = new Tally();
    await begin({ heldBytes: 500 }, {}, memory);
    memory.add('a network of another listener', 490);
    assert.match(await deliver(), /^452 4\.3\.1 /m);
    memory.add('a network of another listener', -490);
    assert.match(await deliver(), /^250 2\.0\.0 taken/m);
    assert.equal(memory.total, 0);
  });

  it('refuses what is said before the greeting, and what is pipelined behind STARTTLS', async () => {
    await begin();
    // smtp-server greets after 100 ms of real time, and on a slow machine that may be before it reads the command.
    for (let isEarly = false; !isEarly;) {
      const early = connect(port);
      early.write('EHLO a.test\r\n');
      await Promise.race([early.closed, early.said(/^220 /m).catch(() => undefined)]);
      isEarly = !/^220 /m.test(early.text());
      if (isEarly) {
        await early.closed;
        assert.doesNotMatch(early.text(), /^250/m);
      }
      early.socket.destroy();
    }
    const client = await greeted();
    client.write('EHLO a.test\r\n');
    await client.said(/^250 /m);
    const before = client.text().length;
    client.write('STARTTLS\r\nMAIL FROM:<evil@b.test>\r\n');
    await client.said(/^220 [^]*^220 /m);
    // Pipelined commands are thrown away, and the bytes that come now are not a handshake.
    client.write('MAIL FROM:<evil@b.test>\r\n');
    await client.closed;
    assert.doesNotMatch(client.text().slice(before), /^250/m);
    assert.deepEqual(mails, []);
  });

  it('leaves places for others where one address begins TLS many times and never ends it', async () => {
    await begin({ connections: 4, connectionsPerAddress: 2 }, {}, new Tally(), 1000, true);
    const silent = Array.from({ length: 12 }, () => connect(port, '127.0.0.2'));
    await Promise.all(silent.slice(4).map(({ closed }) => closed));
    const greeting = async (): Promise<string> => {
      const client = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
      const [text] = (await once(client.setEncoding('latin1'), 'data')) as [string];
      client.destroy();
      await once(client, 'close');
      return text;
    };
    // Each gives its place back.
    for (let n = 0; n < 10; n++) assert.match(await greeting(), /^220 /);
    for (const { socket } of silent) socket.destroy();
  });

  it('forgets at STARTTLS who has signed in before it (RFC 3207)', async () => {
    const senders: (string | null)[] = [];
    await begin(
      {},
      {
        isTrusted: () => true,
        authenticate: () => Promise.resolve({ user: 'ana' as never }),
        sender: ({ user }) => {
          senders.push(user);
          return Promise.resolve(null);
        },
      },
    );
    const client = await greeted();
    client.write('EHLO a.test\r\n');
    await client.said(/^250 /m);
    client.write(`AUTH PLAIN ${Buffer.from('\0apikey\0good').toString('base64')}\r\n`);
    await client.said(/^235 /m);
    client.write('MAIL FROM:<a@b.test>\r\n');
    await client.said(/^250 2\.1\.0 /m);
    client.write('STARTTLS\r\n');
    await client.said(/^220 2\.0\.0 /m);
    client.socket.removeAllListeners('data').setEncoding(undefined);
    const secure = tls.connect({ socket: client.socket, rejectUnauthorized: false });
    await once(secure, 'secureConnect');
    secure.write('EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nQUIT\r\n');
    secure.resume();
    await once(secure, 'close');
    assert.deepEqual(senders, ['ana', null]);
  });

  describe('of a mail that is taken', () => {
    let taken: () => void;
    let client: Client;
    /** A session whose mail has come and is being stored. */
    const begun = async (): Promise<void> => {
      const storing = new Promise<void>((resolve) => {
        const stored = new Promise<void>((done) => (taken = done));
        void begin(
          {},
          {
            data: async () => {
              resolve();
              await stored;
              return '2.0.0 taken';
            },
          },
        ).then(async () => {
          client = await greeted();
          client.write('EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<yes@mx.test>\r\nDATA\r\n');
          await client.said(/^354 /m);
          client.write('Subject: x\r\n\r\nx\r\n.\r\n');
        });
      });
      await storing;
    };

    it('hears so where the listener stops meanwhile, since it would send the mail again', async () => {
      await begun();
      const closed = listener.close();
      taken();
      await client.closed;
      await closed;
      assert.match(client.text(), /^250 2\.0\.0 taken\r\n421 4\.3\.2 the service is stopping\r\n$/m);
    });

    it('hears so where the time of the session ends meanwhile', async () => {
      await begun();
      clock.advance(31 * 60_000);
      taken();
      await client.closed;
      assert.match(client.text(), /^250 2\.0\.0 taken\r\n421 4\.4\.2 that took too long\r\n$/m);
    });
  });

  it('tells a client of a bug of ours no more than that', async () => {
    await begin({}, { data: () => Promise.reject(new Error('secret')) });
    const text = await deliver();
    assert.match(text, /^451 4\.3\.0 something went wrong here/m);
    assert.doesNotMatch(text, /secret/);
  });
});
