import assert from 'node:assert/strict';
import type { DeliveryChange } from '../../src/messages/delivery/delivery.ts';
import type { Occurrence, Recorded } from '../../src/messages/delivery/record.ts';
import type { Bot, Visitor } from '../../src/tracking/bots.ts';
import { createHits, truncated, type HitDeps, type Hits } from '../../src/tracking/hit.ts';
import type { LinkPlace } from '../../src/tracking/token.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const ONE = 'dlv_00000000000000000000000001';
const TWO = 'dlv_00000000000000000000000002';
const person: Visitor = { ip: '203.0.113.7', userAgent: 'Firefox', method: 'GET' };
const machine: Visitor = { ...person, userAgent: 'scanner' };
const place = (link: number, links = 3): LinkPlace => ({
  link,
  links,
  part: 'html',
  url: `https://a.test/${String(link)}`,
});

describe('tracking/hit', () => {
  let clock: FakeClock;
  let written: Occurrence[];
  let units: number;
  let failures: unknown[];
  let answer: () => Promise<readonly Recorded[]>;
  let hits: Hits;

  const begin = (privacy: HitDeps['privacy'] = { storeIp: 'full', storeUserAgent: true }): Hits =>
    createHits({
      clock,
      recorder: {
        record: (occurrences) => {
          units++;
          written.push(...occurrences);
          return answer();
        },
      },
      botOf: (_, { userAgent, method }) => (userAgent === 'scanner' || method === 'HEAD' ? 'scanner' : null),
      privacy,
      failed: (error) => failures.push(error),
    });

  beforeEach(() => {
    clock = new FakeClock();
    written = [];
    units = 0;
    failures = [];
    answer = () => Promise.resolve([]);
    hits = begin();
  });
  afterEach(async () => {
    await hits.close();
    assert.equal(clock.nextAt(), null, 'a timer was left');
  });

  const clicks = (): [id: string, link: string, bot: Bot | null][] =>
    written.map(({ deliveryId, change }) => {
      const { linkId, hit } = change as Extract<DeliveryChange, { kind: 'clicked' }>;
      return [deliveryId.slice(-1), linkId, hit.bot];
    });

  it('writes an open at once', () => {
    hits.opened(ONE, person);
    assert.deepEqual(written, [
      {
        deliveryId: ONE,
        change: {
          kind: 'opened',
          hit: { at: clock.now(), ip: '203.0.113.7', userAgent: 'Firefox', bot: null },
          client: 'Firefox',
          os: null,
          device: null,
        },
      },
    ]);
  });

  it('waits two seconds with a click, which keeps its time', () => {
    const seen = clock.now();
    hits.clicked(ONE, place(2), person);
    clock.advance(1999);
    assert.equal(written.length, 0);
    clock.advance(1);
    assert.deepEqual(clicks(), [['1', '2', null]]);
    assert.equal((written[0]?.change as { hit: { at: number } }).hit.at, seen);
  });

  it('takes who follows all links for a machine', () => {
    for (const link of [1, 3, 2]) hits.clicked(ONE, place(link), person);
    clock.advance(2000);
    assert.deepEqual(clicks(), [
      ['1', '1', 'scanner'],
      ['1', '3', 'scanner'],
      ['1', '2', 'scanner'],
    ]);
    assert.equal(units, 1, 'one transaction');
  });

  it('takes who follows all links for a machine, also where they are more than are written', async () => {
    for (let link = 1; link <= 70; link++) {
      hits.clicked(ONE, place(link, 70), { ...person, method: 'HEAD' });
      hits.clicked(ONE, place(link, 70), person);
    }
    clock.advance(2_000);
    const seen = clicks();
    assert.equal(seen.length, 60);
    assert.deepEqual(
      seen.filter(([, , bot]) => bot !== 'scanner'),
      [],
    );
  });

  it('takes who follows most of them, or one of them often, for a person', () => {
    for (const link of [1, 1, 1, 2]) hits.clicked(ONE, place(link), person);
    clock.advance(2000);
    assert.deepEqual(
      clicks().map(([, , bot]) => bot),
      [null, null, null, null],
    );
  });

  it('takes who takes his time for a person', () => {
    hits.clicked(ONE, place(1, 2), person);
    clock.advance(2000);
    hits.clicked(ONE, place(2, 2), person);
    clock.advance(2000);
    assert.deepEqual(clicks(), [
      ['1', '1', null],
      ['1', '2', null],
    ]);
  });

  it('counts each mail separately', () => {
    hits.clicked(ONE, place(1, 2), person);
    hits.clicked(TWO, place(2, 2), person);
    clock.advance(2025);
    assert.deepEqual(clicks(), [
      ['1', '1', null],
      ['2', '2', null],
    ]);
  });

  it('does not wait where there is nothing to find out', () => {
    hits.clicked(ONE, place(1, 1), person);
    hits.clicked(ONE, place(2), machine);
    clock.advance(25);
    assert.deepEqual(clicks(), [
      ['1', '1', null],
      ['1', '2', 'scanner'],
    ]);
  });

  it('holds so many clicks and no more', () => {
    for (let n = 0; n < 20_001; n++) hits.clicked(`dlv_${String(n).padStart(26, '0')}`, place(1), person);
    assert.equal(written.length, 1);
  });

  it('writes sixty a minute for one mail: everyone who has it must not fill the disk', () => {
    for (let n = 0; n < 100; n++) {
      hits.opened(ONE, person);
      hits.clicked(TWO, place(1, 1), machine);
    }
    clock.advance(25);
    assert.equal(written.length, 120);
    clock.advance(60_000);
    hits.opened(ONE, person);
    assert.equal(written.length, 121);
  });

  it('reports a hit that could not be written, and goes on', async () => {
    answer = () => Promise.reject(new Error('no disk'));
    hits.opened(ONE, person);
    await hits.close();
    assert.match(String(failures[0]), /no disk/);
    answer = () => Promise.resolve([]);
    hits.opened(ONE, person);
    assert.equal(written.length, 2);
  });

  it('writes what waits before it ends', async () => {
    let finish = (): void => undefined;
    answer = () =>
      new Promise((resolve) => {
        finish = () => {
          resolve([]);
        };
      });
    hits.clicked(ONE, place(1), person);
    let closed = false;
    const closing = hits.close().then(() => (closed = true));
    assert.deepEqual(clicks(), [['1', '1', null]]);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(closed, false);
    finish();
    await closing;
  });

  for (const [privacy, ip, agent] of [
    [{ storeIp: 'full', storeUserAgent: true }, '203.0.113.7', 'Firefox'],
    [{ storeIp: 'truncated', storeUserAgent: false }, '203.0.113.0', null],
    [{ storeIp: 'none', storeUserAgent: true }, null, 'Firefox'],
  ] as const) {
    it(`stores what ${JSON.stringify(privacy)} allows`, () => {
      hits = begin(privacy);
      hits.opened(ONE, person);
      const { hit } = written[0]?.change as Extract<DeliveryChange, { kind: 'opened' }>;
      assert.deepEqual([hit.ip, hit.userAgent], [ip, agent]);
    });
  }

  for (const [ip, network] of [
    ['203.0.113.255', '203.0.113.0'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1::'],
    ['::1', '0:0:0::'],
    ['nothing', null],
  ] as const) {
    it(`makes ${String(network)} of ${ip}`, () => {
      assert.equal(truncated(ip), network);
    });
  }
});
