/** Which hours and days the pages ask for, and which they compare them with. */
import assert from 'node:assert/strict';
import { numbersOf } from '../../src/dashboard/numbers.ts';
import type { Visit } from '../../src/dashboard/page.ts';
import { rangeOf } from '../../src/dashboard/range.ts';

const NOW = Date.parse('2026-07-01T12:30:00Z');

/** Returns what the API is asked for: the bucket, the span and the one before. Each line has ten recipients. */
async function askedBy(address: string) {
  const spans: string[] = [];
  const visit = {
    query: new URLSearchParams(address),
    now: NOW,
    zone: 'Europe/Berlin',
    ask: (_: string, { query }: { query: Record<string, string | null> }) => {
      spans.push([query['bucket'], query['since'], query['until'], query['time_zone']].map(String).join(' '));
      const since = query['since'] ?? '';
      return Promise.resolve({
        bucket: query['bucket'],
        since,
        until: query['until'] ?? new Date(NOW).toISOString(),
        total: { sent: 10 },
        data: [{ at: since, counts: { sent: 10 } }],
      });
    },
  } as unknown as Visit;
  const { past, words } = await numbersOf(visit, rangeOf(visit, '30d', ['today', '24h', '7d', '30d', 'all']));
  return { spans, past: past?.sent ?? null, words };
}

describe('dashboard/numbers', () => {
  for (const [address, ...spans] of [
    [
      'range=today',
      'hour 2026-06-30T22:00:00.000Z 2026-07-01T22:00:00.000Z null',
      'hour 2026-06-29T22:00:00.000Z 2026-06-30T22:00:00.000Z null',
    ],
    [
      'range=24h',
      'hour 2026-06-30T13:30:00.000Z null null',
      'hour 2026-06-29T13:30:00.000Z 2026-06-30T13:30:00.000Z null',
    ],
    [
      'range=7d',
      'day 2026-06-24T22:00:00.000Z null Europe/Berlin',
      'day 2026-06-17T23:00:00.000Z 2026-06-24T22:00:00.000Z Europe/Berlin',
    ],
    [
      'range=30d',
      'day 2026-06-01T22:00:00.000Z null Europe/Berlin',
      'day 2026-05-02T22:00:00.000Z 2026-06-01T00:00:00.000Z null',
    ],
    ['range=all', 'day 2025-07-01T12:30:00.000Z null null'],
    // Hours before those are not kept any more.
    ['range=custom&from=2026-06-02&to=2026-06-04', 'hour 2026-06-01T22:00:00.000Z 2026-06-03T22:00:00.000Z null'],
  ] as const)
    it(`asks for ${address}`, async () => {
      assert.deepEqual((await askedBy(address)).spans, spans);
    });

  it('compares today with yesterday until the same hour', async () => {
    const { past, words } = await askedBy('range=today');
    assert.deepEqual([past, words.before], [10, 'by this hour yesterday']);
    assert.equal((await askedBy('range=7d')).words.before, 'in the 7 days before');
  });
});
