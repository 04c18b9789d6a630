import assert from 'node:assert/strict';
import { readAgent } from '../../src/tracking/hit.ts';

const WEBKIT = 'AppleWebKit/537.36 (KHTML, like Gecko)';

describe('tracking/user-agent', () => {
  for (const [agent, client, os, device] of [
    [
      `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${WEBKIT} Chrome/126.0.0.0 Safari/537.36`,
      'Chrome',
      'Windows',
      'desktop',
    ],
    [
      `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${WEBKIT} Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0`,
      'Edge',
      'Windows',
      'desktop',
    ],
    [
      `Mozilla/5.0 (Linux; Android 14; Pixel 8) ${WEBKIT} Chrome/126.0.0.0 Mobile Safari/537.36`,
      'Chrome',
      'Android',
      'phone',
    ],
    [
      `Mozilla/5.0 (Linux; Android 13; SM-X710) ${WEBKIT} SamsungBrowser/25.0 Chrome/121.0.0.0 Safari/537.36`,
      'Samsung Internet',
      'Android',
      'tablet',
    ],
    [
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
      'Safari',
      'iOS',
      'phone',
    ],
    [
      'Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/126.0 Mobile/15E148 Safari/604.1',
      'Chrome',
      'iPadOS',
      'tablet',
    ],
    [
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)',
      'Apple Mail',
      'macOS',
      'desktop',
    ],
    [
      'Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Thunderbird/115.11.0',
      'Thunderbird',
      'Linux',
      'desktop',
    ],
    ['Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0', 'Firefox', 'Linux', 'desktop'],
    [
      'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; Microsoft Outlook 16.0.5197; MSOffice 16)',
      'Outlook',
      'Windows',
      'desktop',
    ],
    ['Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)', 'Gmail', null, null],
    ['YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html', 'Yahoo Mail', null, null],
    ['Mozilla/5.0', null, null, null],
    ['', null, null, null],
    [null, null, null, null],
    [`${'x'.repeat(100_000)}Chrome Windows`, null, null, null],
  ] as const) {
    it(`${String(client)} on ${String(os)}, ${String(device)}: ${String(agent).slice(0, 60)}`, () => {
      assert.deepEqual(readAgent(agent), { client, os, device });
    });
  }
});
