import assert from 'node:assert/strict';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { PreparedMails } from '../../src/mta/prepared-mails.ts';

describe('mta/prepared-mails', () => {
  const job = { id: 'd1' };
  let made: string[];
  let finish: ((mail: string) => void)[];
  let mails: PreparedMails<{ id: string }, string>;

  beforeEach(() => {
    made = [];
    finish = [];
    mails = new PreparedMails(new FakeClock(), ({ id }) => {
      made.push(id);
      return new Promise((resolve) => finish.push(resolve));
    });
  });

  it('makes the mail of each job that begins, and says when it is made', async () => {
    const first = mails.begin(job);
    const second = mails.begin(job);
    assert.notEqual(first, second, 'a mail that is not offered belongs to its worker');
    assert.deepEqual(made, ['d1', 'd1']);
    assert.equal(first.isMade, false);
    finish[0]?.('bytes');
    assert.equal(await first.made, 'bytes');
    assert.deepEqual([first.isMade, second.isMade], [true, false]);
  });

  it('lets a free worker take over a mail that is still composed', async () => {
    const offered = mails.offer(job);
    const taken = mails.begin(job);
    assert.equal(taken, offered);
    finish[0]?.('bytes');
    assert.equal(await taken.made, 'bytes');
    assert.deepEqual(made, ['d1'], 'it is composed once');
  });

  it('gives a mail that was taken over to no other worker', () => {
    const offered = mails.offer(job);
    assert.equal(mails.begin(job), offered);
    assert.notEqual(mails.begin(job), offered);
  });

  it('gives a mail that its worker owns to no other worker', () => {
    const offered = mails.offer(job);
    mails.own(offered);
    assert.notEqual(mails.begin(job), offered);
  });

  it('keeps an offer that another worker made of the same job', () => {
    const first = mails.offer(job);
    mails.begin(job);
    const again = mails.offer(job);
    mails.own(first);
    assert.equal(mails.begin(job), again);
  });

  it('offers again what is taken over and prefetched again', () => {
    const offered = mails.offer(job);
    assert.equal(mails.offer(job), offered);
    assert.equal(mails.begin(job), offered);
    assert.deepEqual(made, ['d1']);
  });
});
