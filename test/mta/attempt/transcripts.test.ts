import assert from 'node:assert/strict';
import { createTranscripts, type Transcripts } from '../../../src/mta/attempt/transcripts.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';

describe('mta/attempt/transcripts', () => {
  let clock: FakeClock;
  let transcripts: Transcripts;
  beforeEach(() => {
    clock = new FakeClock();
    transcripts = createTranscripts({ clock });
  });
  afterEach(() => {
    transcripts.stop();
  });
  let last = 0;
  const begin = (what: Parameters<Transcripts['watch']>[1]): number => {
    last += 1;
    assert.equal(transcripts.watch(last, what), true);
    return last;
  };

  it('gives the lines of a lane or of a message to the watches of it only', async () => {
    const trace = transcripts.of('mx.dest.test');
    assert.equal(trace.on, false);
    trace.begin?.('dest', 'msg_1');
    const [lane, message, other] = [begin({ lane: 'dest' }), begin({ messageId: 'msg_2' }), begin({ lane: 'else' })];
    assert.equal(trace.on, true);
    trace.line('>', 'NOOP');
    trace.begin?.('dest', 'msg_2');
    trace.line('<', '250 ok');
    const texts = async (watch: number): Promise<string[] | undefined> =>
      (await transcripts.read(watch, 0, 0))?.lines.map(({ side, text }) => `${side} ${text}`);
    assert.deepEqual(await texts(lane), ['> NOOP', '< 250 ok']);
    assert.deepEqual(await texts(message), ['< 250 ok']);
    assert.deepEqual(await texts(other), []);
  });

  it('goes on from a position and waits for the next line', async () => {
    const trace = transcripts.of('mx.dest.test');
    trace.begin?.('dest', 'msg_1');
    const watch = begin({ lane: 'dest' });
    trace.line('>', 'one');
    assert.equal((await transcripts.read(watch, 0, 1000))?.position, 1);
    const waiting = transcripts.read(watch, 1, 1000);
    trace.line('>', 'two');
    assert.deepEqual(
      (await waiting)?.lines.map(({ text }) => text),
      ['two'],
    );
    const vain = transcripts.read(watch, 2, 1000);
    clock.advance(1000);
    assert.deepEqual(await vain, { lines: [], position: 2, lost: 0 });
  });

  it('keeps the last 2,000 lines, cut to 1,000 characters, and says how many are lost', async () => {
    const trace = transcripts.of('mx.dest.test');
    trace.begin?.('dest', 'msg_1');
    const watch = begin({ lane: 'dest' });
    for (let count = 0; count < 2_500; count++) trace.line('<', 'x'.repeat(5_000));
    const page = await transcripts.read(watch, 100, 0);
    assert.deepEqual([page?.lines.length, page?.lost, page?.position], [2_000, 400, 2_500]);
    assert.equal(page?.lines[0]?.text.length, 1_000);
  });

  it('ends a watch that is not read any more, and allows sixteen at most', async () => {
    const watches = Array.from({ length: 16 }, () => begin({ lane: 'dest' }));
    assert.equal(transcripts.watch(99_999, { lane: 'dest' }), false);
    clock.advance(30_000);
    await transcripts.read(watches[0] ?? 0, 0, 0);
    clock.advance(30_000);
    assert.deepEqual(
      await Promise.all(watches.slice(0, 2).map(async (watch) => (await transcripts.read(watch, 0, 0)) !== null)),
      [true, false],
    );
    transcripts.end(watches[0] ?? 0);
    assert.equal(transcripts.of('mx.dest.test').on, false);
  });

  it('lets those who wait go when the program stops', async () => {
    const waiting = transcripts.read(begin({ lane: 'dest' }), 0, 30_000);
    transcripts.stop();
    assert.equal(await waiting, null);
    assert.equal(clock.nextAt(), null, 'no timer is left');
  });
});
