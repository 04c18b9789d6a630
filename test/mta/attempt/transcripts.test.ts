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

  it('gives the lines of a lane or of a message to the watches of it only', () => {
    const trace = transcripts.of('mx.dest.test');
    assert.equal(trace.on, false);
    trace.begin?.('dest', 'msg_1');
    const [lane, message, other] = [begin({ lane: 'dest' }), begin({ messageId: 'msg_2' }), begin({ lane: 'else' })];
    assert.equal(trace.on, true);
    trace.line('>', 'NOOP');
    trace.begin?.('dest', 'msg_2');
    trace.line('<', '250 ok');
    const texts = (watch: number): string[] | undefined =>
      transcripts.read(watch, 0)?.lines.map(({ side, text }) => `${side} ${text}`);
    assert.deepEqual(texts(lane), ['> NOOP', '< 250 ok']);
    assert.deepEqual(texts(message), ['< 250 ok']);
    assert.deepEqual(texts(other), []);
  });

  it('goes on from a position', () => {
    const trace = transcripts.of('mx.dest.test');
    trace.begin?.('dest', 'msg_1');
    const watch = begin({ lane: 'dest' });
    trace.line('>', 'one');
    assert.equal(transcripts.read(watch, 0)?.position, 1);
    trace.line('>', 'two');
    assert.deepEqual(
      transcripts.read(watch, 1)?.lines.map(({ text }) => text),
      ['two'],
    );
    assert.deepEqual(transcripts.read(watch, 2), { lines: [], position: 2, lost: 0 });
  });

  it('keeps the last 2,000 lines, cut to 1,000 characters, and says how many are lost', () => {
    const trace = transcripts.of('mx.dest.test');
    trace.begin?.('dest', 'msg_1');
    const watch = begin({ lane: 'dest' });
    for (let count = 0; count < 2_500; count++) trace.line('<', 'x'.repeat(5_000));
    const page = transcripts.read(watch, 100);
    assert.deepEqual([page?.lines.length, page?.lost, page?.position], [2_000, 400, 2_500]);
    assert.equal(page?.lines[0]?.text.length, 1_000);
  });

  it('ends a watch that is not read any more, and allows sixteen at most', () => {
    const watches = Array.from({ length: 16 }, () => begin({ lane: 'dest' }));
    assert.equal(transcripts.watch(99_999, { lane: 'dest' }), false);
    clock.advance(30_000);
    assert.notEqual(transcripts.read(watches[0] ?? 0, 0), null);
    clock.advance(30_000);
    assert.equal(transcripts.watch(99_999, { lane: 'dest' }), true);
    assert.deepEqual(
      watches.slice(0, 2).map((watch) => transcripts.read(watch, 0) !== null),
      [true, false],
    );
    assert.equal(clock.nextAt(), null, 'no timer is left');
  });
});
