import assert from 'node:assert/strict';
import { readScanners } from '../../src/config/data-file.ts';
import { createBotOf, type Bot } from '../../src/tracking/bots.ts';

const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';
const HOME = '203.0.113.7';

describe('tracking/bots, by the rules that come with the program', () => {
  const botOf = createBotOf(readScanners(null));

  for (const [kind, userAgent, ip, expected, who] of [
    ['open', 'Mozilla/5.0', '17.58.1.1', 'apple_mpp', 'Apple Mail Privacy Protection'],
    ['open', 'Mozilla/5.0', '104.28.42.1', 'apple_mpp', 'the same through a relay of its partners'],
    [
      'open',
      'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)',
      '66.249.84.1',
      'gmail_proxy',
      'the image proxy of Gmail',
    ],
    [
      'open',
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/42.0.2311.135 Safari/537.36 Edge/12.246 Mozilla/5.0',
      '66.102.8.1',
      'prefetch',
      'Gmail, before the mail is shown',
    ],
    ['click', CHROME, '40.94.30.1', 'scanner', 'Safe Links of Microsoft'],
    ['open', CHROME, '104.47.55.1', 'scanner', 'Exchange Online Protection'],
    ['click', CHROME, '2a01:111:f400:7e05::1', 'scanner', 'the same over IPv6'],
    [
      'click',
      'Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b',
      HOME,
      'scanner',
      'a preview of Microsoft',
    ],
    ['click', CHROME, '64.235.150.1', 'scanner', 'Barracuda by its network'],
    ['click', 'BarracudaCentral.org', HOME, 'scanner', 'Barracuda by its name'],
    ['click', CHROME, '207.211.31.5', 'scanner', 'Mimecast'],
    ['click', CHROME, '205.139.111.9', 'scanner', 'Mimecast elsewhere'],
    ['click', CHROME, '67.231.152.1', 'scanner', 'Proofpoint'],
    ['click', CHROME, '148.163.140.1', 'scanner', 'Proofpoint elsewhere'],
    ['click', 'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)', HOME, 'prefetch', 'the preview of a chat'],
    ['click', 'python-requests/2.31.0', HOME, 'scanner', 'a program'],
    ['click', 'curl/8.5.0', HOME, 'scanner', 'a command'],
    ['click', null, HOME, 'scanner', 'who does not say what it is'],
    ['click', '  ', HOME, 'scanner', 'who says nothing'],

    ['open', CHROME, HOME, null, 'Chrome'],
    ['click', CHROME, HOME, null, 'Chrome'],
    [
      'click',
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
      HOME,
      null,
      'Safari on a telephone',
    ],
    [
      'open',
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)',
      HOME,
      null,
      'Apple Mail without its relays',
    ],
    [
      'open',
      'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; WOW64; Trident/8.0; Microsoft Outlook 16.0.5197; ms-office; MSOffice 16)',
      HOME,
      null,
      'Outlook',
    ],
    [
      'open',
      'Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Thunderbird/115.11.0',
      HOME,
      null,
      'Thunderbird',
    ],
    [
      'click',
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0',
      HOME,
      null,
      'Edge',
    ],
    ['click', 'Mozilla/5.0', HOME, null, 'a link is followed by people alone, also through a relay'],
    ['open', null, HOME, null, 'a mail program that does not say what it is'],
    ['open', CHROME, null, null, 'an address nobody knows'],
    ['open', CHROME, 'no address', null, 'what is no address'],
  ] as readonly (readonly ['open' | 'click', string | null, string | null, Bot | null, string])[]) {
    it(`${expected ?? 'person'} (${kind}): ${who}`, () => {
      assert.equal(botOf(kind, { ip, userAgent, method: 'GET' }), expected);
    });
  }

  it('HEAD is asked by machines alone', () => {
    assert.equal(botOf('open', { ip: HOME, userAgent: CHROME, method: 'HEAD' }), 'scanner');
    assert.equal(
      botOf('open', { ip: HOME, userAgent: 'Mozilla/5.0', method: 'HEAD' }),
      'apple_mpp',
      'which one, if that is known',
    );
  });
});
