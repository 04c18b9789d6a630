import assert from 'node:assert/strict';
import { DnsSlots, type Asking } from '../../src/net/dns-slots.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const TIMEOUT_MS = 5000;

describe('base/dns-slots', () => {
  let clock: FakeClock;
  let slots: DnsSlots<string>;
  let most: { slow: number; all: number };
  let asking: number;

  beforeEach(() => {
    clock = new FakeClock();
    slots = new DnsSlots<string>({ clock }, { max: 500, maxWaiting: 50_000, slowMs: 1500 });
    most = { slow: 0, all: 0 };
    asking = 0;
  });

  /** A DNS that answers after so long, or is silent until the time limit. */
  const after = (ms: number) => (): Asking<string> => {
    const isSilent = ms >= TIMEOUT_MS;
    asking++;
    most.all = Math.max(most.all, asking);
    let over: (result: string) => void = () => undefined;
    const result = new Promise<string>((resolve) => (over = resolve));
    const timer = clock.after(ms, () => {
      asking--;
      over(isSilent ? 'timeout' : 'answer');
    });
    const abandon = (): void => {
      timer.cancel();
      asking--;
    };
    return { result, abandon };
  };

  interface Ended {
    name: string;
    result: string;
    at: number;
  }

  function start(ended: Ended[], name: string, ms: number, of: { kind?: string; isSlow?: boolean } = {}): void {
    const begun = clock.monotonic();
    const running = slots.run(after(ms), { kind: of.kind ?? 'MX', isSlow: of.isSlow ?? false });
    assert.ok(running);
    void running.then((result) => ended.push({ name, result, at: clock.monotonic() - begun }));
  }

  /** Time goes on until all have ended. */
  async function until(ended: readonly Ended[], count: number, longest = 600_000): Promise<void> {
    for (let ms = 0; ended.length < count; ms += 20) {
      assert.ok(ms < longest, `${String(ended.length)} of ${String(count)} ended`);
      clock.advance(20);
      for (let turn = 0; turn < 4; turn++) await Promise.resolve();
    }
  }

  it('lets 4,000 look-ups of a second each through without a failure, 500 at a time', async () => {
    const ended: Ended[] = [];
    for (let n = 0; n < 4000; n++) start(ended, String(n), 1000);
    await until(ended, 4000, 12_000);
    assert.deepEqual([...new Set(ended.map(({ result }) => result))], ['answer']);
    assert.equal(most.all, 500);
  });

  it('does not let silent names delay the others, and gives each of them its verdict', async () => {
    const ended: Ended[] = [];
    // Three of ten names are silent, in a line of 12,000.
    for (let n = 0; n < 12_000; n++) start(ended, n % 10 < 3 ? 'silent' : 'healthy', n % 10 < 3 ? TIMEOUT_MS : 50);
    await until(ended, 12_000);
    const of = (name: string): Ended[] => ended.filter((one) => one.name === name);
    assert.equal(of('healthy').length, 8400);
    assert.ok(of('healthy').every(({ result }) => result === 'answer'));
    assert.ok(of('silent').every(({ result }) => result === 'timeout'));
    const last = Math.max(...of('healthy').map(({ at }) => at));
    // Half of the slots, 1.5 s for each silent name: 166 silent names a second, and all 3,600 in 22 s.
    assert.ok(last < 25_000, `the last healthy one after ${String(last)} ms`);
    assert.equal(most.all, 500);
  });

  it('keeps at most half of the slots for silent names while others wait', async () => {
    const ended: Ended[] = [];
    for (let n = 0; n < 2000; n++) start(ended, 'silent', TIMEOUT_MS);
    clock.advance(4000);
    await Promise.resolve();
    assert.deepEqual(slots.load(), { inFlight: 500, waiting: 1500 });
    const begun = ended.length;
    for (let n = 0; n < 250; n++) start(ended, 'late', 50, { kind: 'A' });
    await until(ended, begun + 250);
    const late = (): Ended[] => ended.filter(({ name }) => name === 'late');
    await until(ended, ended.length + 1);
    for (let ms = 0; ms < 6000 && late().length < 250; ms += 100) await until(ended, ended.length + 1);
    assert.equal(late().length, 250);
    assert.ok(Math.max(...late().map(({ at }) => at)) < 6000);
  });

  it('begins with names that were silent before only in their half', async () => {
    const ended: Ended[] = [];
    for (let n = 0; n < 600; n++) start(ended, 'silent', TIMEOUT_MS, { isSlow: true });
    assert.deepEqual(slots.load(), { inFlight: 250, waiting: 350 });
    start(ended, 'healthy', 50);
    await until(ended, 1, 60);
    assert.equal(ended[0]?.name, 'healthy');
  });

  it('answers that take longer than others still come', async () => {
    const ended: Ended[] = [];
    for (let n = 0; n < 2000; n++) start(ended, 'far', 3000);
    await until(ended, 2000, 60_000);
    assert.deepEqual([...new Set(ended.map(({ result }) => result))], ['answer']);
  });

  it('lets kinds take turns', async () => {
    const ended: Ended[] = [];
    for (let n = 0; n < 5000; n++) start(ended, 'many', 100);
    start(ended, 'one', 100, { kind: 'TXT' });
    await until(ended, 1000);
    assert.ok(ended.some(({ name }) => name === 'one'));
  });

  it('turns away what does not fit into the line, and ends all when it is closed', async () => {
    slots = new DnsSlots<string>({ clock }, { max: 2, maxWaiting: 1, slowMs: 1500 });
    const ended: Ended[] = [];
    for (let n = 0; n < 3; n++) start(ended, 'x', TIMEOUT_MS);
    assert.equal(slots.run(after(1), { kind: 'MX', isSlow: false }), null);
    slots.close('closed');
    await Promise.resolve();
    assert.deepEqual(
      ended.map(({ result }) => result),
      ['closed', 'closed', 'closed'],
    );
    assert.deepEqual([slots.load(), asking, clock.nextAt()], [{ inFlight: 0, waiting: 0 }, 0, null]);
  });

  it('hands on the error of a bug', async () => {
    const broken = slots.run(() => ({ result: Promise.reject(new Error('a bug')), abandon: () => undefined }), {
      kind: 'MX',
      isSlow: false,
    });
    await assert.rejects(broken ?? Promise.resolve(), /a bug/);
    assert.equal(slots.load().inFlight, 0);
  });
});
