/**
 * What strangers try at SMTP listeners: to have mail relayed, to hide a second mail in a first one, to speak before TLS does, to
 * guess keys, to take all connections. Lists of our own, and those of corpora/security where they are present.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { startTestApp, zonesFor, type TestApp, type TestAppOptions } from '../support/harness/app.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { plainAuth, smtpClient, type SmtpClient } from '../support/harness/smtp-client.ts';

const SRV = 'mail.posthorn.test';
const IP = '127.0.0.1';
const FOREIGN = 'dest.test';

/** The forms an address has been given to get a server to relay; `%s` is where it is to go. */
const relayForms: readonly string[] = [
  'relay@%s',
  `relay%%s@${SRV}`,
  `relay%%s@[${IP}]`,
  '"relay@%s"',
  '"relay%%s"',
  `relay@%s@${SRV}`,
  `relay@%s@[${IP}]`,
  `"relay@%s"@${SRV}`,
  `"relay@%s"@[${IP}]`,
  `"relay@%s"@rp.acme.test`,
  `@${SRV}:relay@%s`,
  `@[${IP}]:relay@%s`,
  `@${SRV},@rp.acme.test:relay@%s`,
  '%s!relay',
  `%s!relay@${SRV}`,
  `%s!relay@[${IP}]`,
  `${SRV}!%s!relay`,
  `%s!relay@rp.acme.test`,
  'relay@[192.0.2.1]',
  'relay@[IPv6:2001:db8::1]',
  'relay@192.0.2.1',
  'relay@%s.',
  'relay@%S',
  `relay%%s%${SRV}@${SRV}`,
  `relay%40%s@${SRV}`,
  'relay=40%s',
  `relay@${SRV}@%s`,
  'relay@rp.acme.test',
  'relay@acme.test',
  'postmaster@%s',
  `postmaster@sub.${SRV}`,
  `postmaster@${SRV}.evil.test`,
  `postmaster%%s@${SRV}`,
  `"postmaster@%s"@rp.acme.test`,
  `relay\\@%s@${SRV}`,
  `relay@%s,postmaster@${SRV}`,
  `relay@%s;postmaster@rp.acme.test`,
  '"relay"@%s',
  'relay+b@%s',
  'relay@localhost',
  'relay',
  `%s!relay%${SRV}@rp.acme.test`,
  `relay@%s\\0@${SRV}`,
  `b+x@rp.acme.test`,
  `fbl%%s@rp.acme.test`,
  `relay@%s(@${SRV})`,
  `relay@%s/@${SRV}`,
  `relay@%s#@${SRV}`,
  `relay@%s\t@${SRV}`,
  `<relay@%s>`,
  `relay@%s><postmaster@${SRV}`,
  `abuse@%s`,
];

const senders = ['', `spam@${FOREIGN}`, `spam@${SRV}`, `spam@[${IP}]`, 'spam@rp.acme.test', 'hi@acme.test'];

/** Ends of data that are none, and what some servers make of them. */
const falseEnds: readonly string[] = [
  '\n.\n',
  '\n.\r',
  '\r.\n',
  '\r.\r',
  '\n.\r\n',
  '\r.\r\n',
  '\r\n.\n',
  '\r\n.\r',
  '\r\n\0.\r\n',
  '\r\n.\0\r\n',
  '\r\n.\r\r\n',
  '\r\r\n.\r\r\n',
  '\n\n.\n\n',
  '\r\n .\r\n',
  '\r\n.\t\r\n',
  '\r\n..\r\n',
  '\v.\v',
  '\f.\f',
  '\u0085.\u0085',
];

interface RelayList {
  rows: { mail_from: string; rcpt_to: string }[];
}

describe('journey: SMTP security', () => {
  let server: FakeMailServer;
  let app: TestApp;

  const begin = async (options: TestAppOptions = {}): Promise<void> => {
    server = await startMailServer({ extensions: ['PIPELINING', '8BITMIME', 'SIZE 50000000'] });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor(FOREIGN, 'evil.test'), ...options });
  };
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const mx = (): number => app.app.ports.mx ?? 0;
  const greeted = async (port: number, isSecure = false): Promise<SmtpClient> => {
    const client = smtpClient(port, { isSecure });
    assert.match(await client.reply(), /^220 /);
    assert.match(await client.say('EHLO a.test'), /^250/);
    return client;
  };
  const signedIn = async (): Promise<SmtpClient> => {
    const client = await greeted(app.app.ports.submissions ?? 0, true);
    assert.match(await client.say(plainAuth('apikey', app.key)), /^235 /);
    return client;
  };

  /** Each in a session of its own sender, a new one before the errors are too many. */
  async function refusesAll(port: number, rows: readonly { from: string; to: string }[], code: RegExp): Promise<void> {
    for (let at = 0; at < rows.length; at += 8) {
      const client = await greeted(port);
      for (const { from, to } of rows.slice(at, at + 8)) {
        await client.say('RSET');
        const taken = await client.say(`MAIL FROM:<${from}>`);
        const reply = taken.startsWith('250 ') ? await client.say(`RCPT TO:<${to}>`) : taken;
        assert.match(reply, code, `${from} -> ${to}: ${reply}`);
        assert.match(await client.say('DATA'), /^503 /, `${from} -> ${to}`);
      }
      client.end();
    }
  }

  const permutations = senders.flatMap((from) =>
    relayForms.map((form) => ({ from, to: form.replaceAll('%s', FOREIGN).replaceAll('%S', FOREIGN.toUpperCase()) })),
  );

  it(`relays nothing: ${String(relayForms.length)} forms from ${String(senders.length)} senders`, async () => {
    await begin();
    assert.ok(relayForms.length >= 40);
    await refusesAll(mx(), permutations, /^5\d\d /);
    await refusesAll(app.app.ports.submission ?? 0, permutations.slice(0, relayForms.length), /^5\d\d /);
    assert.deepEqual(await app.app.db.reader('reports').select('id'), []);
    assert.deepEqual(await app.app.db.reader('messages').select('id'), []);
    assert.deepEqual(server.sessions, []);
  });

  it('relays nothing: the list of the corpus', async function () {
    const folder = corpus('security');
    if (folder === null) this.skip(NO_CORPORA);
    await begin();
    const list = JSON.parse(readFileSync(`${folder}/open-relay.json`, 'utf8')) as RelayList;
    const fill = (text: string): string =>
      text.replaceAll('{domain}', FOREIGN).replaceAll('{srv}', SRV).replaceAll('{ip}', IP);
    await refusesAll(
      mx(),
      list.rows.map(({ mail_from: from, rcpt_to: to }) => ({ from: fill(from), to: fill(to) })),
      /^5\d\d /,
    );
  });

  it('takes mail for the postmaster, also without a domain (RFC 5321 section 4.5.1)', async () => {
    await begin();
    const client = await greeted(mx());
    await client.say('MAIL FROM:<pat@people.test>');
    for (const to of ['postmaster', 'Postmaster', `postmaster@${SRV}`])
      assert.match(await client.say(`RCPT TO:<${to}>`), /^250 /);
    client.end();
  });

  /** Says a mail with a false end in it, and then what would be a second one; gives the number of mails taken. */
  async function smuggle(client: SmtpClient, from: string, to: string, end: string): Promise<string[]> {
    assert.match(await client.say(`MAIL FROM:<${from}>`), /^250 /);
    assert.match(await client.say(`RCPT TO:<${to}>`), /^250 /);
    assert.match(await client.say('DATA'), /^354 /);
    client.write(
      `From: ${from}\r\nTo: ${to}\r\nSubject: first\r\n\r\nfirst${end}MAIL FROM:<${from}>\r\nRCPT TO:<second@evil.test>\r\nDATA\r\nFrom: ${from}\r\nSubject: second\r\n\r\nsecond\r\n.\r\n`,
    );
    const replies = [await client.reply()];
    const last = await client.say('NOOP');
    if (!last.startsWith('250 ')) replies.push(last);
    return replies;
  }

  const corpusEnds = (): string[] => {
    const folder = corpus('security');
    if (folder === null) return [];
    const list = JSON.parse(readFileSync(`${folder}/smuggling-sequences.json`, 'utf8')) as { union: string[] };
    return list.union;
  };

  it('takes one mail where a false end of data is in it, as a report', async () => {
    await begin();
    const ends = new Set([...falseEnds, ...corpusEnds()]);
    for (const end of ends) {
      const client = await greeted(mx());
      const replies = await smuggle(client, 'a@people.test', 'postmaster@rp.acme.test', end);
      assert.deepEqual(
        replies.map((one) => one.slice(0, 20)),
        ['250 2.0.0 taken as r'],
        JSON.stringify(end),
      );
      client.end();
    }
    const rows = await app.app.db.reader<{ recipients_json: string }>('reports').select('recipients_json');
    assert.deepEqual(new Set(rows.map((row) => row.recipients_json)), new Set(['["postmaster@rp.acme.test"]']));
    assert.equal(rows.length, ends.size);
  });

  it('takes and sends one mail where a false end of data is in it, and leaves nothing in it that another server could misread', async () => {
    await begin();
    const ends = new Set([...falseEnds, ...corpusEnds()]);
    let taken = 0;
    for (const end of ends) {
      const client = await signedIn();
      const replies = await smuggle(client, 'hi@acme.test', 'ana@dest.test', end);
      assert.equal(replies.length, 1, JSON.stringify(end));
      assert.match(replies[0] ?? '', /^(?:250 2\.0\.0 queued as msg_|554 5\.6\.0 )/, JSON.stringify(end));
      if (replies[0]?.startsWith('250') === true) taken++;
      client.end();
    }
    // The same by the API, where text comes as it likes.
    for (const end of ends) {
      const mail = {
        text: `first${end}MAIL FROM:<hi@acme.test>\r\nRCPT TO:<second@evil.test>\r\nDATA\r\nsecond`,
        subject: 'x',
      };
      const { status } = await app.request('POST', '/v1/messages', {
        from: 'hi@acme.test',
        to: 'ana@dest.test',
        ...mail,
      });
      if (status === 202) taken++;
    }
    while (server.sessions.flatMap(({ mails }) => mails).length < taken)
      await new Promise((resolve) => setImmediate(resolve));
    await app.settled();
    const mails = server.sessions.flatMap((session) => session.mails);
    assert.equal(mails.length, taken);
    for (const { to, data } of mails) {
      assert.deepEqual(to, ['ana@dest.test']);
      assert.doesNotMatch(data, /\r(?!\n)|(?<!\r)\n|\0/, 'a line end that is none, or NUL');
    }
    // Dots are doubled on the wire: every line that is a dot alone would otherwise end the mail at any server.
    assert.ok(
      mails.some(({ data }) => data.includes('\r\n.\r\n')),
      'none of the false ends became a line with a dot',
    );
  });

  it('drops what was said in the clear behind STARTTLS, on both listeners', async () => {
    await begin();
    for (const port of [mx(), app.app.ports.submission ?? 0]) {
      const client = await greeted(port);
      client.write('STARTTLS\r\nEHLO evil.test\r\nMAIL FROM:<evil@evil.test>\r\nRCPT TO:<postmaster>\r\n');
      assert.match(await client.reply(), /^220 /);
      await client.startTls();
      assert.match(await client.say('RCPT TO:<postmaster>'), /^503 /, 'what was said before is forgotten');
      assert.match(await client.say('EHLO a.test'), /^250/);
      assert.match(await client.say('DATA'), /^503 /);
      client.end();
    }
  });

  it('answers wrong keys, and takes a good one from the same address at once', async () => {
    await begin();
    const port = app.app.ports.submissions ?? 0;
    for (let failures = 1; failures <= 10; failures++) {
      const client = await greeted(port, true);
      const waits = app.clock.armed(1000);
      const replied = client.say(plainAuth('apikey', `ak_live_00000000_guess${String(failures)}`));
      await waits;
      app.clock.advance(1000);
      assert.match(await replied, /^535 5\.7\.8 /);
      client.end();
    }
    const good = await signedIn();
    good.end();
  });

  it('ends sessions of a network that tries on and on at their first unknown key, and takes a good one still', async () => {
    await begin();
    const port = app.app.ports.submissions ?? 0;
    const answerTo = async (guess: number): Promise<string> => {
      const client = await greeted(port, true);
      const waits = app.clock.armed(1000);
      const replied = client.say(plainAuth('apikey', `ak_live_00000000_guess${String(guess)}`));
      await waits;
      app.clock.advance(1000);
      const reply = await replied;
      client.end();
      return reply;
    };
    const answers: string[] = [];
    for (let guess = 1; guess <= 101; guess++) answers.push(await answerTo(guess));
    assert.ok(answers.slice(0, 100).every((reply) => reply.startsWith('535 5.7.8 there is no such API key')));
    assert.match(answers[100] ?? '', /^421 4\.7\.0 there is no such API key, and your network has tried too many/);
    const good = await signedIn();
    good.end();
    app.clock.advance(3_600_000);
    assert.match(await answerTo(102), /^535 /, 'an hour later');
  });

  it('serves an ordinary client beside a flood of connections', async () => {
    await begin();
    const flood = Array.from({ length: 400 }, (_, i) => smtpClient(mx(), { from: `127.0.1.${String(1 + (i % 4))}` }));
    const held = await Promise.all(flood.map((client) => client.reply()));
    // All four addresses are of one network, which may have a hundred connections.
    assert.equal(held.filter((reply) => reply.startsWith('421 4.7.0 too many connections at once')).length, 300);
    const client = await greeted(mx());
    for (const [line, code] of [
      ['MAIL FROM:<pat@people.test>', '250'],
      ['RCPT TO:<postmaster@rp.acme.test>', '250'],
      ['DATA', '354'],
    ] as const)
      assert.equal((await client.say(line)).slice(0, 3), code);
    assert.match(await client.say('Subject: x\r\n\r\nx\r\n.'), /^250 2\.0\.0 taken/);
    for (const one of [client, ...flood]) one.end();
  });
});
