/** The samples of docs/webhooks.md for verifying a call are programs that do it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { RETRY_WAITS_MS } from '../../src/webhooks/retry.ts';
import { sign, writeSecret } from '../../src/webhooks/signature.ts';
import { docBlocks } from '../support/tools/doc-blocks.ts';

const manual = readFileSync(path.resolve(import.meta.dirname, '../../docs/webhooks.md'), 'utf8');
const sampleIn = (language: string): string =>
  docBlocks(manual).find((block) => block.language === language)?.text ?? assert.fail(`no sample in ${language}`);

const NOW = 1_769_851_800;
const [secret, old, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2), Buffer.alloc(32, 3)];
const body = '{"type":"delivered","subject":"ž 💌"}';
const headers = { ...sign([secret, old], { id: 'evt_1', timestamp: NOW, body }) };

/** Headers, body, secret, time, and whether the call is genuine. */
const calls = [
  [headers, body, secret, NOW, true],
  [headers, body, old, NOW, true],
  [headers, body, secret, NOW + 300, true],
  [headers, body, secret, NOW + 301, false],
  [headers, body, secret, NOW - 301, false],
  [headers, body, other, NOW, false],
  [headers, `${body} `, secret, NOW, false],
  [{ ...headers, 'webhook-id': 'evt_2' }, body, secret, NOW, false],
  [{ ...headers, 'webhook-timestamp': String(NOW + 1) }, body, secret, NOW, false],
  [{ ...headers, 'webhook-timestamp': 'now' }, body, secret, NOW, false],
  [
    { ...headers, 'webhook-signature': headers['webhook-signature'].replaceAll('v1,', 'v2,') },
    body,
    secret,
    NOW,
    false,
  ],
  [{ ...headers, 'webhook-signature': 'v1' }, body, secret, NOW, false],
  [{}, body, secret, NOW, false],
] as const;

describe('the samples for verifying a call', () => {
  it('in JavaScript tell genuine calls from others', async () => {
    const source = `data:text/javascript,${encodeURIComponent(sampleIn('js'))}`;
    const { isGenuine } = (await import(source)) as { isGenuine: (...call: unknown[]) => boolean };
    for (const [given, text, key, now, expected] of calls)
      assert.equal(isGenuine(given, text, writeSecret(key), now), expected, JSON.stringify([given, text, now]));
  });

  it('in Python tell genuine calls from others', function () {
    if (spawnSync('python3', ['--version'], { stdio: 'ignore' }).status !== 0) {
      this.skip('python3 is not installed (apt-get install python3)');
    }
    const rows = calls.map(([given, text, key, now]) => [given, text, writeSecret(key), now]);
    const program = `${sampleIn('python')}
import json, sys
print(json.dumps([is_genuine(h, b.encode(), s, n) for h, b, s, n in json.load(sys.stdin)]))`;
    const { stdout, stderr } = spawnSync('python3', ['-c', program], { input: JSON.stringify(rows), encoding: 'utf8' });
    assert.equal(stderr, '');
    assert.deepEqual(
      JSON.parse(stdout),
      calls.map((call) => call[4]),
    );
  });
});

describe('docs/webhooks.md', () => {
  it('has the waits between attempts as the code has them', () => {
    const written = (ms: number): string => {
      const parts = [
        [3_600_000, 'h'],
        [60_000, 'min'],
        [1000, 's'],
      ] as const;
      let left = ms >= 60_000 ? ms - (ms % 60_000) : ms;
      return parts
        .flatMap(([length, unit]) => {
          const count = Math.floor(left / length);
          left -= count * length;
          return count === 0 ? [] : [`${String(count)} ${unit}`];
        })
        .join(' ');
    };
    const waits = RETRY_WAITS_MS.map(written);
    const whole = written(RETRY_WAITS_MS.reduce((sum, wait) => sum + wait, 0));
    assert.ok(manual.includes(`after ${waits.slice(0, -1).join(', ')} and ${waits.at(-1) ?? ''}, each`));
    assert.ok(manual.includes(`${String(waits.length + 1)} attempts within ${whole}`.replace('10 ', 'ten ')));
  });
});
