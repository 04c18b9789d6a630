import assert from 'node:assert/strict';
import { countEndings } from '../../src/inbound/inbound.ts';
import type { Handlers, Session } from '../../src/inbound/listener.ts';
import { refuse } from '../../src/inbound/smtp-refusal.ts';

const session: Session<string> = {
  id: '1',
  ip: '192.0.2.1',
  isSecure: true,
  helo: 'x',
  protocol: 'ESMTPSA',
  user: null,
  sender: '',
  recipients: [],
  requireTls: false,
};
const handlers: Handlers<string> = {
  authenticate: (_session, _name, password) =>
    Promise.resolve(password === 'right' ? { user: 'ana' } : refuse(535, '5.7.8 no')),
  sender: (_session, address) => Promise.resolve(address === 'bad' ? refuse(553, '5.1.7 no') : null),
  recipient: (_session, address) => Promise.resolve(address === 'bad' ? refuse(550, '5.1.1 no') : null),
  data: (_session, mail) =>
    mail.length === 0
      ? Promise.reject(new Error('a fault'))
      : Promise.resolve(mail.length > 3 ? refuse(552, '5.3.4 no') : '2.0.0 queued'),
};

describe('counted submissions', () => {
  for (const [what, act, codes] of [
    ['a mail that is taken', (one) => one.data(session, Buffer.from('abc'), 3), [250]],
    ['a mail that is refused', (one) => one.data(session, Buffer.from('abcd'), 4), [552]],
    ['a fault', (one) => assert.rejects(one.data(session, Buffer.alloc(0), 0), /a fault/), [451]],
    ['a wrong key', (one) => one.authenticate?.(session, 'apikey', 'wrong'), [535]],
    ['a right key', (one) => one.authenticate?.(session, 'apikey', 'right'), []],
    ['a sender', (one) => one.sender(session, 'bad'), [553]],
    ['a recipient', (one) => one.recipient(session, 'bad'), [550]],
    [
      'what goes on',
      async (one) => {
        await one.sender(session, 'a@b.test');
        await one.recipient(session, 'a@b.test');
      },
      [],
    ],
  ] as [string, (one: Handlers<string>) => Promise<unknown> | undefined, number[]][])
    it(what, async () => {
      const heard: number[] = [];
      await act(countEndings(handlers, (code) => heard.push(code)));
      assert.deepEqual(heard, codes);
    });

  it('offers no sign-in where there is none', () => {
    const { sender, recipient, data } = handlers;
    assert.equal(countEndings({ sender, recipient, data }, () => undefined).authenticate, undefined);
  });
});
