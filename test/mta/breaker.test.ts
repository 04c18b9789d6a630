import assert from 'node:assert/strict';
import { createBreaker } from '../../src/mta/breaker.ts';

const MINUTE = 60_000;
const HOST = 'mx1.dest.test:25';

describe('mta/breaker', () => {
  it('lets a host be dialled that nobody knows, or that failed once or twice', () => {
    const breaker = createBreaker();
    assert.equal(breaker.readyAt(HOST, 5), 5);
    breaker.failed(HOST, 10);
    breaker.failed(HOST, 20);
    assert.equal(breaker.readyAt(HOST, 30), 30);
  });

  it('leaves a host alone for a minute after three failures in a row', () => {
    const breaker = createBreaker();
    for (const at of [10, 20, 30]) breaker.failed(HOST, at);
    assert.equal(breaker.readyAt(HOST, 40), 30 + MINUTE);
    assert.ok(breaker.readyAt(HOST, 30 + MINUTE) <= 30 + MINUTE);
    assert.equal(breaker.readyAt('mx2.dest.test:25', 40), 40, 'and no other');
  });

  it('counts failures in a row only', () => {
    const breaker = createBreaker();
    for (const at of [10, 20]) breaker.failed(HOST, at);
    breaker.succeeded(HOST);
    breaker.failed(HOST, 30);
    assert.equal(breaker.readyAt(HOST, 40), 40);
  });

  it('lets one probe through, and nobody beside it', () => {
    const breaker = createBreaker();
    for (const at of [1, 2, 3]) breaker.failed(HOST, at);
    const now = 3 + MINUTE;
    assert.ok(breaker.readyAt(HOST, now) <= now);
    breaker.dialling(HOST);
    assert.ok(breaker.readyAt(HOST, now) > now);
    breaker.succeeded(HOST);
    assert.equal(breaker.readyAt(HOST, now), now);
  });

  it('doubles the time with each probe that fails, up to a quarter of an hour', () => {
    const breaker = createBreaker();
    let now = 0;
    for (let count = 0; count < 3; count++) breaker.failed(HOST, now);
    const waits: number[] = [];
    for (let probe = 0; probe < 7; probe++) {
      const at = breaker.readyAt(HOST, now);
      waits.push((at - now) / MINUTE);
      now = at;
      breaker.dialling(HOST);
      breaker.failed(HOST, now);
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 15, 15, 15]);
  });

  it('is not opened for longer by dials that were under way when it opened', () => {
    const breaker = createBreaker();
    for (let count = 0; count < 20; count++) breaker.failed(HOST, 100 + count);
    assert.equal(breaker.readyAt(HOST, 200), 102 + MINUTE);
  });

  it('remembers a bounded number of hosts', () => {
    const breaker = createBreaker();
    for (let count = 0; count < 3; count++) breaker.failed(HOST, 0);
    for (let host = 0; host < 20_000; host++) breaker.failed(`h${host}`, 0);
    assert.equal(breaker.readyAt(HOST, 1), 1, 'the oldest was forgotten');
  });
});
