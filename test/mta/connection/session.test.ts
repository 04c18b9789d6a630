import assert from 'node:assert/strict';
import type { OpenDeps } from '../../../src/mta/connection/open-session.ts';
import type { Session, Transfer } from '../../../src/mta/connection/session.ts';
import type { FakeClock } from '../../support/fakes/fake-clock.ts';
import { startMailServer } from '../../support/fakes/fake-mail-server.ts';
import type { Action, FakeMailServer, MailServerOptions, Script, Stage } from '../../support/fakes/fake-mail-server.ts';
import { mailOf, openDeps, opened, targetOf, timeouts } from './helpers.ts';

const plainOffers = ['8BITMIME', 'SMTPUTF8', 'SIZE 1000000'];

describe('mta/connection/session', () => {
  let deps: OpenDeps & { clock: FakeClock };
  let server: FakeMailServer | null;

  beforeEach(() => {
    deps = openDeps();
    server = null;
  });

  afterEach(async () => {
    await server?.close();
  });

  async function start(
    script: Script,
    options: MailServerOptions = {},
  ): Promise<{ server: FakeMailServer; session: Session }> {
    server = await startMailServer({ script, ...options });
    return { server, session: await opened(deps, targetOf(server)) };
  }

  /** Sends one mail to a server with this script, and closes. */
  async function sendTo(script: Script, options: MailServerOptions = {}): Promise<Transfer> {
    const { session } = await start(script, options);
    const transfer = await session.send(mailOf());
    session.destroy();
    return transfer;
  }

  it('delivers a mail as it is, and says so', async () => {
    const { server, session } = await start({});
    const text = '.begins with a dot\r\n\r\n..two\r\nline\r\n.\r\nnot the end\r\n.last';
    const transfer = await session.send(mailOf(text));
    assert.ok(transfer.kind === 'accepted');
    assert.equal(transfer.reply.text, '2.0.0 taken');
    assert.deepEqual(server.sessions[0]?.mails, [
      { from: 'b+abc@rp.acme.test', to: ['ana@dest.test'], data: `${text}\r\n` },
    ]);
    await session.close();
    assert.equal(server.sessions[0].lines.at(-1), 'QUIT');
  });

  it('needs two round trips on a warm connection with PIPELINING, and takes turns without', async () => {
    const pipelined = await start({});
    await pipelined.session.send(mailOf());
    assert.deepEqual(pipelined.server.sessions[0]?.bursts.slice(1), [
      ['MAIL FROM:<b+abc@rp.acme.test> SIZE=22', 'RCPT TO:<ana@dest.test>', 'DATA'],
      ['(data)'],
    ]);
    await pipelined.session.close();
    await pipelined.server.close();
    const plain = await start({}, { extensions: plainOffers });
    assert.equal((await plain.session.send(mailOf())).kind, 'accepted');
    assert.equal(plain.server.sessions[0]?.bursts.length, 5);
    await plain.session.close();
  });

  it('drops the connection before the final dot where another server may be sending the mail by now', async () => {
    for (const lines of [1, 3000]) {
      let isReplaced = false;
      deps.maySend = () => !isReplaced;
      const { server, session } = await start({});
      assert.equal((await session.send(mailOf())).kind, 'accepted');
      isReplaced = true;
      const transfer = await session.send(mailOf(`Subject: hi\r\n\r\n${`${'x'.repeat(70)}\r\n`.repeat(lines)}`));
      assert.equal(transfer.kind, 'withheld');
      assert.equal(session.usable(), false);
      await server.close();
      assert.equal(server.sessions[0]?.mails.length, 1);
    }
  });

  it('gives back the memory of a mail that no other has, once the mail is taken', async () => {
    const { server, session } = await start({});
    const text = `Subject: hi\r\n\r\n${'x'.repeat(76)}\r\n`.padEnd(40_000, 'line\r\n');
    const send = (isOwn: boolean, data: Buffer) => session.send({ ...mailOf(text), data: [data], isOwn });
    const [own, shared] = [Buffer.alloc(text.length, text), Buffer.alloc(text.length, text)];
    for (const transfer of [await send(true, own), await send(false, shared)]) assert.equal(transfer.kind, 'accepted');
    assert.deepEqual([own.length, shared.length], [0, text.length]);
    assert.deepEqual(new Set(server.sessions[0]?.mails.map(({ data }) => data)).size, 1);
  });

  it('carries mail after mail over one connection', async () => {
    const { server, session } = await start({});
    for (let at = 0; at < 20; at++) {
      assert.equal(session.usable(), true);
      const transfer = await session.send(mailOf(`Subject: ${String(at)}\r\n\r\nx\r\n`));
      assert.equal(transfer.kind, 'accepted');
      assert.equal(transfer.earlier, at);
    }
    assert.equal(session.messages, 20);
    assert.equal(server.sessions.length, 1);
    assert.equal(server.sessions[0]?.mails[19]?.data, 'Subject: 19\r\n\r\nx\r\n');
    assert.equal(server.sessions[0].lines.includes('RSET'), false);
    await session.close();
  });

  it('sends a large mail in blocks, dots and all', async () => {
    const { server, session } = await start({}, { extensions: ['PIPELINING'] });
    const text = '.line with a dot and some more text to make it long\r\n'.repeat(40_000);
    const bytes = Buffer.from(text);
    const data = [bytes.subarray(0, 53), bytes.subarray(53, 1_000_000), bytes.subarray(1_000_000)];
    const transfer = await session.send(mailOf('', { data, size: bytes.length }));
    assert.equal(transfer.kind, 'accepted');
    assert.equal(server.sessions[0]?.mails[0]?.data === text, true);
    assert.equal(deps.clock.nextAt(), null, 'no timer is left');
    await session.close();
  });

  for (const extensions of [['PIPELINING', 'SIZE'], ['SIZE']]) {
    const how = extensions.includes('PIPELINING') ? 'pipelined' : 'in turns';

    const refusals: [Stage, 'mail' | 'rcpt' | 'data' | 'dot', string][] = [
      ['mail', 'mail', '550 5.7.1 not you'],
      ['mail', 'mail', '451 4.7.1 later'],
      ['rcpt', 'rcpt', '550 5.1.1 unknown'],
      ['data', 'data', '554 5.7.0 no'],
      ['message', 'dot', '552 5.3.4 too much'],
      ['message', 'dot', '451 4.3.0 later'],
    ];
    for (const [stage, phase, reply] of refusals)
      it(`gives back ${reply.slice(0, 3)} to ${stage} (${how}) and can go on`, async () => {
        let times = 0;
        const onTime = (usual: string) => (): Action => (times === 1 ? '503 5.5.1 MAIL first' : usual);
        const { session } = await start(
          {
            ...(stage === 'mail' ? { rcpt: onTime('250 ok'), data: onTime('354 go') } : {}),
            [stage]: (): Action => (times++ === 0 ? reply : stage === 'data' ? '354 go' : '250 ok'),
          },
          { extensions },
        );
        const transfer = await session.send(mailOf());
        assert.ok(transfer.kind === 'refused');
        assert.equal(transfer.phase, phase);
        assert.equal(transfer.reply.code, Number(reply.slice(0, 3)));
        assert.equal(transfer.reply.enhanced, reply.split(' ')[1]);
        assert.equal(session.usable(), true);
        assert.equal((await session.send(mailOf())).kind, 'accepted');
        await session.close();
      });

    for (const stage of ['mail', 'rcpt', 'data', 'message'] as const) {
      const phase = stage === 'message' ? 'dot' : stage;
      it(`names the phase when the server hangs up at ${stage} (${how})`, async () => {
        const transfer = await sendTo({ [stage]: 'drop' }, { extensions });
        assert.ok(transfer.kind === 'broken');
        assert.equal(transfer.phase, phase);
        assert.equal(transfer.uncertain, stage === 'message', 'uncertain only after the dot');
      });

      it(`names the phase when the server falls silent at ${stage} (${how})`, async () => {
        const { server, session } = await start({ [stage]: 'hang' }, { extensions });
        const sending = session.send(mailOf());
        await server.reached(stage);
        // Earlier answers have to be read first: then the timer of the right phase runs.
        while (deps.clock.nextAt() !== deps.clock.now() + timeouts[phase])
          await new Promise((resolve) => setImmediate(resolve));
        deps.clock.advance(timeouts[phase] - 1);
        assert.equal(session.usable(), true);
        deps.clock.advance(1);
        const transfer = await sending;
        assert.equal(transfer.kind === 'broken' && transfer.phase, phase);
        assert.match(transfer.kind === 'broken' ? transfer.text : '', /^no answer within .* s$/);
        assert.equal(transfer.kind === 'broken' && transfer.uncertain, stage === 'message');
        assert.equal(session.usable(), false);
        await session.close();
      });

      it(`takes 421 at ${stage} for an answer and the end (${how})`, async () => {
        const { session } = await start({ [stage]: { raw: '421 4.3.2 closing\r\n', then: 'drop' } }, { extensions });
        const transfer = await session.send(mailOf());
        assert.equal(transfer.kind === 'refused' && transfer.phase, phase);
        assert.equal(transfer.kind === 'refused' && transfer.reply.code, 421);
        assert.equal(session.usable(), false);
        await session.close();
      });

      it(`is not fooled by nonsense at ${stage} (${how})`, async () => {
        for (const raw of ['hello there\r\n', '999 what\r\n', '\r\n', '250\u0000ok\r\n']) {
          const transfer = await sendTo({ [stage]: { raw, then: 'hang' } }, { extensions });
          assert.equal(transfer.kind === 'broken' && transfer.phase, phase, raw);
          await server?.close();
        }
      });
    }
  }

  it('believes a refusal of all recipients though DATA is answered with 354', async () => {
    let times = 0;
    const { server, session } = await start({ rcpt: () => (times++ === 0 ? '550 5.1.1 unknown' : '250 ok') });
    const transfer = await session.send(mailOf());
    assert.equal(transfer.kind === 'refused' && transfer.phase, 'rcpt');
    assert.equal(server.sessions[0]?.mails[0]?.data, '', 'only a lone dot was sent');
    assert.equal(session.usable(), true);
    assert.equal((await session.send(mailOf())).kind, 'accepted');
    assert.equal(server.sessions[0].lines.includes('RSET'), false, 'the dot ended the transaction');
    await session.close();
  });

  it('sends RSET along with the next mail if the server still holds a transaction', async () => {
    let times = 0;
    const { server, session } = await start({
      rcpt: () => (times++ === 0 ? '550 5.1.1 unknown' : '250 ok'),
      data: () => (times === 1 ? '554 5.5.1 no valid recipients' : '354 go'),
    });
    assert.equal((await session.send(mailOf())).kind, 'refused');
    assert.equal((await session.send(mailOf())).kind, 'accepted');
    assert.deepEqual(server.sessions[0]?.bursts.at(-2), [
      'RSET',
      'MAIL FROM:<b+abc@rp.acme.test> SIZE=22',
      'RCPT TO:<ana@dest.test>',
      'DATA',
    ]);
    await session.close();
  });

  for (const extensions of [['PIPELINING'], []])
    it(`bug: the mail after one that was refused at its end got 503 (${extensions.join() || 'in turns'})`, async () => {
      const { server, session } = await start(
        { message: (data) => (data.includes('no thanks') ? '450 4.2.2 full' : '250 ok') },
        { extensions, keepsTransactions: true },
      );
      assert.equal((await session.send(mailOf('Subject: no thanks\r\n\r\nx\r\n'))).kind, 'refused');
      for (let at = 0; at < 2; at++) assert.equal((await session.send(mailOf())).kind, 'accepted');
      assert.equal(server.sessions[0]?.lines.filter((line) => line === 'RSET').length, 1);
      await session.close();
    });

  it('bug: a lone dot ended the transaction of another mail, which a server held that refused RSET', async () => {
    const { server, session } = await start(
      { rset: '503 5.5.1 not now', message: '450 4.2.2 full' },
      { keepsTransactions: true },
    );
    assert.equal((await session.send(mailOf())).kind, 'refused');
    const second = await session.send(mailOf());
    assert.equal(second.kind === 'broken' && second.text, 'the server is out of step: 503 5.5.1 not now');
    await server.sessions[0]?.closed;
    assert.equal(server.sessions[0]?.mails.length, 1);
  });

  it('sends no lone dot either where the server refused the sender with another code', async () => {
    const { server, session } = await start({ mail: '550 5.7.1 not you' });
    const transfer = await session.send(mailOf());
    assert.equal(transfer.kind === 'refused' && transfer.phase, 'mail');
    assert.equal(session.usable(), false);
    await server.sessions[0]?.closed;
    assert.deepEqual(server.sessions[0]?.mails, []);
  });

  it('takes 500, 502 and 503 for no answer to the mail, unless the enhanced code speaks of it', async () => {
    for (const [stage, reply, kind] of [
      ['mail', '503 5.5.1 nested MAIL', 'broken'],
      ['rcpt', '502 5.5.1 not now', 'broken'],
      ['data', '503 bad sequence', 'broken'],
      ['message', '500 5.5.2 what?', 'broken'],
      ['rcpt', '503 5.1.1 no such user', 'refused'],
      ['message', '500 5.6.1 no such content', 'refused'],
    ] as const) {
      const transfer = await sendTo({ [stage]: reply });
      assert.equal(transfer.kind, kind, reply);
      assert.equal(transfer.kind === 'broken' && transfer.uncertain, false);
      await server?.close();
    }
    const unknown = await sendTo({ rcpt: '550 5.1.1 unknown', data: '503 5.5.1 RCPT first' });
    assert.equal(unknown.kind === 'refused' && unknown.phase, 'rcpt');
  });

  it('does not know whether a mail was taken after an answer to its dot that is neither yes nor no', async () => {
    const transfer = await sendTo({ message: '354 go on' });
    assert.equal(transfer.kind === 'broken' && transfer.text, 'the server is out of step: 354 go on');
    assert.equal(transfer.kind === 'broken' && transfer.uncertain, true);
  });

  it('sends to those who are taken and names those who are not', async () => {
    const { server, session } = await start({ rcpt: (line) => (line.includes('bob') ? '550 5.1.1 no bob' : '250 ok') });
    const transfer = await session.send(mailOf(undefined, { recipients: ['ana@dest.test', 'bob@dest.test'] }));
    assert.ok(transfer.kind === 'accepted');
    assert.deepEqual(
      transfer.refusedRecipients.map((each) => [each.recipient, each.reply.code]),
      [['bob@dest.test', 550]],
    );
    assert.equal(server.sessions[0]?.mails.length, 1);
    await session.close();
  });

  it('takes 250 for delivered though a reset follows', async () => {
    const { session } = await start({ message: { raw: '250 2.0.0 taken\r\n', then: 'reset' } });
    assert.equal((await session.send(mailOf())).kind, 'accepted');
    while (session.usable()) await new Promise((resolve) => setImmediate(resolve));
    await session.close();
  });

  it('does not take an answer without its end for one', async () => {
    const { session } = await start({ message: { raw: '250 2.0.0 tak', then: 'drop' } });
    const transfer = await session.send(mailOf());
    assert.equal(transfer.kind === 'broken' && transfer.text, 'connection closed in the middle of a reply');
    assert.equal(transfer.kind === 'broken' && transfer.uncertain, true);
    await session.close();
  });

  it('gives a trickling answer no more time than any other', async () => {
    const { server, session } = await start({ message: 'hang' });
    const sending = session.send(mailOf());
    await server.reached('message');
    const until = deps.clock.now() + timeouts.dot;
    while (deps.clock.nextAt() !== until) await new Promise((resolve) => setImmediate(resolve));
    for (const letter of '250-slo') {
      server.sessions[0]?.say(letter);
      await new Promise((resolve) => setImmediate(resolve));
      deps.clock.advance(60_000);
    }
    deps.clock.advance(timeouts.dot - 7 * 60_000);
    const transfer = await sending;
    assert.equal(transfer.kind === 'broken' && transfer.phase, 'dot');
    await session.close();
  });

  it('ends an endless answer', async () => {
    for (const raw of ['250-more\r\n'.repeat(2000), '250 '.padEnd(200_000, 'x')]) {
      const transfer = await sendTo({ rcpt: { raw, then: 'hang' } });
      assert.equal(transfer.kind === 'broken' && transfer.phase, 'rcpt');
      await server?.close();
    }
  });

  it('cuts off a server that floods it with answers', async () => {
    const transfer = await sendTo({ message: { raw: '250 ok\r\n'.repeat(1000), then: 'hang' } });
    assert.equal(transfer.kind, 'accepted', 'the first of them is the answer');
  });

  it('does not reuse a connection on which the server spoke, hung up or said 421', async () => {
    for (const disturb of [
      (at: FakeMailServer): void => at.sessions[0]?.say('421 4.4.2 idle too long\r\n'),
      (at: FakeMailServer): void => at.sessions[0]?.say('250 by the way\r\n'),
      (at: FakeMailServer): void => at.sessions[0]?.say('2'),
      (at: FakeMailServer): void => at.sessions[0]?.end(),
      (at: FakeMailServer): void => at.sessions[0]?.reset(),
    ]) {
      const { server, session } = await start({});
      await session.send(mailOf());
      const gone = new Promise<void>((resolve) => {
        session.watch(resolve);
      });
      disturb(server);
      await gone;
      assert.equal(session.usable(), false);
      await session.close();
      await server.close();
    }
  });

  it('believes a refusal in the middle of the body when the server then hangs up', async () => {
    const { session } = await start(
      { data: { raw: '354 go\r\n552 5.3.4 too large\r\n', then: 'reset' } },
      { extensions: ['PIPELINING'] },
    );
    const bytes = Buffer.alloc(30_000_000, 'x\r\n');
    const transfer = await session.send(mailOf('', { data: [bytes], size: bytes.length }));
    assert.equal(transfer.kind === 'refused' && transfer.reply.code, 552);
    assert.equal(session.usable(), false);
    await session.close();
  });

  it('bug: an answer before the final dot was taken for the answer to it, though the server said another one then', async () => {
    for (const [early, kind] of [
      ['250 2.0.0 taken', 'broken'],
      ['451 4.3.0 later', 'refused'],
    ] as const) {
      const { server, session } = await start({ data: `354 go\r\n${early}`, message: '552 5.3.4 no' });
      const transfer = await session.send(mailOf());
      assert.equal(transfer.kind, kind);
      assert.equal(transfer.kind === 'broken' && transfer.uncertain, false);
      assert.equal(session.usable(), false);
      await server.sessions[0]?.closed;
      assert.deepEqual(server.sessions[0]?.mails, [], 'no final dot was sent');
      await server.close();
    }
  });

  it('gives each block its own time', async () => {
    const { server, session } = await start({}, { extensions: ['PIPELINING'] });
    server.options.script = { data: { raw: '354 go\r\n', then: 'hang' } };
    const bytes = Buffer.alloc(60_000_000, 'x\r\n');
    const sending = session.send(mailOf('', { data: [bytes], size: bytes.length }));
    // The fake goes on reading: it has to stop, for the blocks to have nowhere to go.
    await server.reached('data');
    server.sessions[0]?.pause();
    await stalled(deps.clock);
    deps.clock.advance(timeouts.block);
    const transfer = await sending;
    assert.equal(transfer.kind === 'broken' && transfer.phase, 'block');
    assert.equal(transfer.kind === 'broken' && transfer.uncertain, false);
    await session.close();
  });

  it('ends the attempt when its time is over', async () => {
    const { server, session } = await start({ data: 'hang' });
    const sending = session.send(mailOf(undefined, { deadline: deps.clock.monotonic() + 10_000 }));
    await server.reached('data');
    const until = deps.clock.now() + 10_000;
    while (deps.clock.nextAt() !== until) await new Promise((resolve) => setImmediate(resolve));
    deps.clock.advance(10_000);
    const transfer = await sending;
    assert.match(transfer.kind === 'broken' ? transfer.text : '', /whole attempt/);
    await session.close();
  });

  it('waits for the answer to the final dot as long as ever, although the time of the attempt is over', async () => {
    const { server, session } = await start({ message: 'hang' });
    const sending = session.send(mailOf(undefined, { deadline: deps.clock.monotonic() + 10_000 }));
    await server.reached('message');
    const until = deps.clock.now() + timeouts.dot;
    while (deps.clock.nextAt() !== until) await new Promise((resolve) => setImmediate(resolve));
    deps.clock.advance(timeouts.dot - 1);
    server.sessions[0]?.say('250 taken\r\n');
    assert.equal((await sending).kind, 'accepted');
    await session.close();
  });

  it('does not send what the server cannot take', async () => {
    const { server, session } = await start({}, { extensions: ['PIPELINING', 'SIZE 1000'] });
    const cases: [Partial<Parameters<Session['send']>[0]>, Partial<Transfer>][] = [
      [{ size: 1001 }, { kind: 'unsupported', what: 'size', limit: 1000 }],
      [{ smtpUtf8: true }, { kind: 'unsupported', what: 'smtputf8', limit: null }],
      [{ eightBit: true }, { kind: 'unsupported', what: '8bitmime', limit: null }],
      [{ requireTls: true }, { kind: 'unsupported', what: 'requiretls', limit: null }],
    ];
    for (const [changes, expected] of cases) {
      const transfer = await session.send(mailOf(undefined, changes));
      assert.deepEqual({ ...transfer, ...expected }, transfer);
    }
    assert.deepEqual(server.sessions[0]?.lines, ['EHLO mail.posthorn.test']);
    assert.equal(session.messages, 0);
    assert.equal((await session.send(mailOf())).kind, 'accepted');
    await session.close();
  });

  it('says in MAIL what the mail needs, and only that', async () => {
    const { server, session } = await start({});
    await session.send(mailOf('x\r\n', { smtpUtf8: true, eightBit: true, recipients: ['j\u00f6rg@dest.test'] }));
    await session.send(mailOf('x\r\n', { envelopeFrom: '' }));
    const mails = server.sessions[0]?.lines.filter((line) => line.startsWith('MAIL'));
    assert.deepEqual(mails, ['MAIL FROM:<b+abc@rp.acme.test> SIZE=3 BODY=8BITMIME SMTPUTF8', 'MAIL FROM:<> SIZE=3']);
    assert.equal(server.sessions[0]?.mails[0]?.to[0], Buffer.from('j\u00f6rg@dest.test').toString('latin1'));
    await session.close();
  });

  it('throws rather than write an address that holds a command', async () => {
    const { server, session } = await start({});
    for (const address of [
      'a@b.test>\r\nRSET',
      'a@b.test> NOTIFY=NEVER',
      'a b@c.test',
      'j\u00f6rg@dest.test',
      'a\0@b.test',
    ])
      await assert.rejects(
        session.send(mailOf(undefined, { recipients: [address] })),
        /invalid envelope address/,
        address,
      );
    await assert.rejects(session.send(mailOf(undefined, { recipients: [] })));
    assert.deepEqual(server.sessions[0]?.lines, ['EHLO mail.posthorn.test']);
    const quoted = await session.send(mailOf(undefined, { recipients: ['"a> b"@dest.test'] }));
    assert.equal(quoted.kind, 'accepted');
    await session.close();
  });

  it('measures each phase', async () => {
    const { session } = await start({
      mail: () => {
        deps.clock.advance(5);
        return '250 ok';
      },
      message: () => {
        deps.clock.advance(20);
        return '250 ok';
      },
    });
    const { timings } = await session.send(mailOf());
    assert.equal(timings.dot, 20);
    assert.equal(timings.mail, 5);
    const again = await session.send(mailOf());
    assert.deepEqual([again.timings.connect, again.timings.banner], [0, 0]);
    await session.close();
  });

  it('leaves without waiting for a server that does not answer QUIT', async () => {
    const { server, session } = await start({ quit: 'hang' });
    const closing = session.close();
    await server.reached('quit');
    deps.clock.advance(2000);
    await closing;
  });

  /** Waits until a block's timer has been the next one for many turns of the loop. */
  async function stalled(clock: FakeClock): Promise<void> {
    for (let turns = 0; turns < 200; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (clock.nextAt() !== clock.now() + timeouts.block) turns = 0;
    }
  }
});
