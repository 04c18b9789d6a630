/** Parameters of MAIL and RCPT that we do not obey are refused, as RFC 5321 section 4.1.1.11 wants. */
import assert from 'node:assert/strict';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { makeSelfSigned } from '../../src/config/own-certificate.ts';
import { Listener, type Handlers, type Session, checkParameters } from '../../src/inbound/listener.ts';
import { smtpClient, type SmtpClient } from '../support/harness/smtp-client.ts';

import { refuse } from '../../src/inbound/smtp-refusal.ts';

const SILENT = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const log = { ...SILENT, child: () => log };
const certificate = makeSelfSigned('mx.test', Date.parse('2026-01-01T00:00:00Z'));

describe('inbound/esmtp-parameters', () => {
  it('are those of what is offered', () => {
    assert.equal(checkParameters({}, []), null);
    assert.equal(checkParameters({ SIZE: '1', SMTPUTF8: true }, ['SIZE', 'SMTPUTF8']), null);
    for (const name of ['RET', 'ENVID', 'HOLDFOR', 'CONSTRUCTOR', '__PROTO__'])
      assert.equal(checkParameters({ SIZE: '1', [name]: 'x' }, ['SIZE'])?.code, 555);
  });

  it('repeats no name that is none', () => {
    assert.match(checkParameters({ FOO: '1' }, [])?.text ?? '', /the parameter FOO is not known here$/);
    assert.match(checkParameters({ '<B>': '1' }, [])?.text ?? '', /the parameter is not known here$/);
  });
});

describe('inbound/listener: parameters', () => {
  const seen: Session<never>[] = [];
  const open: (Listener<never> | SmtpClient)[] = [];

  const begin = async (isSubmission: boolean): Promise<SmtpClient> => {
    seen.length = 0;
    const handlers: Handlers<never> = {
      ...(isSubmission ? { authenticate: () => Promise.resolve(refuse(535, '5.7.8 nobody may')) } : {}),
      sender(session, address) {
        seen.push(session);
        return Promise.resolve(address.startsWith('no') ? refuse(450, '4.7.1 not now') : null);
      },
      recipient: () => Promise.resolve(null),
      data: () => Promise.resolve('2.0.0 taken'),
    };
    const listener = new Listener(
      { clock: new FakeClock(Date.parse('2026-01-31T09:30:00Z')), log },
      {
        host: '127.0.0.1',
        port: 0,
        hostname: 'mx.test',
        isSecure: false,
        certificate,
        size: 10_000,
        keepBytes: 1000,
        maxRecipients: 3,
        smtputf8: true,
      },
      handlers,
    );
    const client = smtpClient(await listener.listen());
    open.push(listener, client);
    await client.reply();
    await client.say('EHLO a.test');
    return client;
  };
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) {
      if ('end' in one) one.end();
      else await one.close();
    }
  });

  const rows: [said: string, mx: RegExp, submission: RegExp][] = [
    ['MAIL FROM:<a@b.test> SIZE=100 BODY=8BITMIME SMTPUTF8', /^250 /, /^250 /],
    ['MAIL FROM:<a@b.test> AUTH=<>', /^555 5\.5\.4 /, /^250 /],
    ['MAIL FROM:<a@b.test> AUTH=a+40b.test', /^555 5\.5\.4 /, /^250 /],
    ['MAIL FROM:<a@b.test> RET=FULL ENVID=q', /^555 5\.5\.4 /, /^555 5\.5\.4 /],
    ['MAIL FROM:<a@b.test> FOO=bar', /^555 5\.5\.4 /, /^555 5\.5\.4 /],
    ['MAIL FROM:<a@b.test> SIZE=x', /^501 5\.5\.4 /, /^501 5\.5\.4 /],
    ['MAIL FROM:<a@b.test> SIZE', /^501 5\.5\.4 /, /^501 5\.5\.4 /],
    ['MAIL FROM:<a@b.test> SIZE=1 SIZE=2', /^501 5\.5\.4 /, /^501 5\.5\.4 /],
    ['MAIL FROM:<a@b.test> SIZE=10001', /^552 5\.3\.4 /, /^552 5\.3\.4 /],
    ['MAIL FROM:<a@b.test> BODY=BINARYMIME', /^501 5\.5\.4 /, /^501 5\.5\.4 /],
    ['MAIL FROM:<a@b.test> SMTPUTF8=1', /^501 5\.5\.4 /, /^501 5\.5\.4 /],
  ];
  for (const [said, mx, submission] of rows)
    it(said, async () => {
      assert.match(await (await begin(false)).say(said), mx);
      assert.match(await (await begin(true)).say(said), submission);
    });

  it('RCPT with any, while the mail itself goes on', async () => {
    const client = await begin(false);
    await client.say('MAIL FROM:<a@b.test>');
    assert.match(await client.say('RCPT TO:<y@mx.test> NOTIFY=NEVER'), /^555 5\.5\.4 the parameter NOTIFY/);
    assert.match(await client.say('RCPT TO:<y@mx.test> ORCPT=rfc822;y@mx.test'), /^555 5\.5\.4 /);
    assert.match(await client.say('DATA'), /^503 /);
    assert.match(await client.say('RCPT TO:<y@mx.test>'), /^250 /);
  });

  it('what a refused MAIL asked for is not asked for by the next', async () => {
    const client = await begin(true);
    await client.say('STARTTLS');
    await client.startTls();
    await client.say('EHLO a.test');
    assert.match(await client.say('MAIL FROM:<no@b.test> REQUIRETLS'), /^450 /);
    assert.match(await client.say('MAIL FROM:<a@b.test>'), /^250 /);
    assert.deepEqual(
      seen.map(({ requireTls }) => requireTls),
      [true, false],
    );
  });
});
