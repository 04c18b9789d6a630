import assert from 'node:assert/strict';
import fc from 'fast-check';
import { simpleParser } from 'mailparser';
import { changeHtml, type HtmlOctets } from '../../src/mail/change-html.ts';

const mail = (...lines: string[]): Buffer => Buffer.from(`${lines.join('\r\n')}\r\n`, 'latin1');
const utf8 = (text: string): string => Buffer.from(text).toString('latin1');
/** Puts a mark behind each link, and notes the texts of what it saw. */
function marker(): { seen: string[]; change: (html: HtmlOctets) => string } {
  const seen: string[] = [];
  return {
    seen,
    change({ octets, decode }) {
      seen.push(decode(octets).trim());
      return octets.replaceAll('</a>', '</a><b>!</b>');
    },
  };
}
const HTML = '<p>x <a href="https://a.test/">ü</a></p>';
const MARKED = '<p>x <a href="https://a.test/">ü</a><b>!</b></p>';
const quoted = (text: string): string =>
  utf8(text)
    .replaceAll('=', '=3D')
    .replaceAll(/[\x80-\xff]/g, escaped);
const escaped = (octet: string): string => `=${octet.charCodeAt(0).toString(16).toUpperCase()}`;

describe('mail/change-html', () => {
  for (const [name, charset, encoding, body] of [
    ['as 8bit', 'utf-8', '8bit', utf8(HTML)],
    ['without a charset', null, null, utf8(HTML)],
    ['in another charset', 'iso-8859-1', '8bit', HTML],
    ['as quoted-printable', 'utf-8', 'Quoted-Printable', quoted(HTML)],
    ['as quoted-printable with soft line ends', 'utf-8', 'quoted-printable', quoted(HTML).replace('href', 'hr=\r\nef')],
    ['as base64', 'utf-8', 'base64', Buffer.from(HTML).toString('base64').replace(/.{20}/g, '$&\r\n')],
  ] as const) {
    const fields = [
      'MIME-Version: 1.0',
      `Content-Type: text/html${charset === null ? '' : `; charset=${charset}`}`,
      ...(encoding === null ? [] : [`Content-Transfer-Encoding: ${encoding}`]),
    ];
    it(`changes html ${name}, alone and in a part`, async () => {
      const { seen, change } = marker();
      const alone = changeHtml(mail('Subject: s', ...fields, '', body), change);
      assert.equal((await simpleParser(alone)).html.toString().trim(), MARKED);
      const inParts = changeHtml(
        mail(
          'Content-Type: multipart/mixed; boundary="m"',
          '',
          'preamble </a>',
          '--m',
          'Content-Type: multipart/alternative; boundary=mm',
          '',
          '--mm',
          '',
          'plain </a>',
          '--mm',
          ...fields,
          '',
          body,
          '--mm--',
          '--m',
          'Content-Type: text/html',
          'Content-Disposition: attachment; filename=a.html',
          '',
          'attached </a>',
          '--m',
          'Content-Type: message/rfc822',
          '',
          'Content-Type: text/html',
          '',
          'within </a>',
          '--m--',
          'epilogue </a>',
        ),
        change,
      );
      assert.deepEqual(seen, [HTML, HTML]);
      assert.equal((await simpleParser(inParts)).html.toString().trim().split('\n')[0], MARKED);
      const text = inParts.toString('latin1');
      for (const kept of ['preamble', 'plain', 'attached', 'within', 'epilogue'])
        assert.ok(text.includes(`${kept} </a>\r\n`), kept);
      assert.ok(text.endsWith('--m--\r\nepilogue </a>\r\n'));
    });
  }

  for (const [name, whole] of [
    [
      'a signed part',
      mail('Content-Type: multipart/signed; boundary=s', '', '--s', 'Content-Type: text/html', '', '</a>', '--s--'),
    ],
    ['an encrypted mail', mail('Content-Type: application/pkcs7-mime', '', '</a>')],
    ['a charset that is not based on ASCII', mail('Content-Type: text/html; charset=utf-16', '', '</a>')],
    [
      'an unknown transfer encoding',
      mail('Content-Type: text/html', 'Content-Transfer-Encoding: x-uuencode', '', '</a>'),
    ],
    ['a mail without a body', mail('Content-Type: text/html')],
    ['html without a link', mail('Content-Type: text/html', 'Content-Transfer-Encoding: base64', '', 'PGI+eDwvYj4=')],
    ['a multipart without a boundary', mail('Content-Type: multipart/mixed', '', '--', '</a>')],
    ['a text', mail('Subject: s', '', '</a>')],
    ['an empty part', mail('Content-Type: multipart/mixed; boundary=m', '', '--m', '--m', '', 'x', '--m--')],
  ] as const)
    it(`leaves ${name} as it is`, () => {
      assert.equal(changeHtml(whole, marker().change).toString('latin1'), whole.toString('latin1'));
    });

  it('changes the last part of a mail that was cut off', () => {
    const cut = mail('Content-Type: multipart/mixed; boundary=m', '', '--m', 'Content-Type: text/html', '', '<a></a>');
    assert.match(changeHtml(cut, marker().change).toString('latin1'), /<a><\/a><b>!<\/b>/);
  });

  it('never throws, and changes nothing where nothing is to be changed', () => {
    const line = fc.constantFrom(
      '--m',
      '--m--',
      '--n',
      '',
      'Content-Type: text/html',
      'Content-Type: multipart/mixed; boundary=m',
      'Content-Type: multipart/mixed; boundary=n',
      'Content-Transfer-Encoding: base64',
      'PGI+=',
      '<a>x</a>',
      ' folded',
      '\xff=',
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 40 }), (lines) => {
        const whole = mail(...lines);
        changeHtml(whole, marker().change);
        assert.equal(changeHtml(whole, ({ octets }) => octets).toString('latin1'), whole.toString('latin1'));
      }),
    );
  });

  it('says of a mail whose html it encoded that it is MIME, once (RFC 2045 section 4)', () => {
    const versions = (...fields: string[]): number =>
      changeHtml(mail('Subject: s', ...fields, 'Content-Type: text/html', '', '<a>x</a>'), marker().change)
        .toString('latin1')
        .match(/^MIME-Version: 1\.0\r$/gm)?.length ?? 0;
    assert.deepEqual([versions(), versions('MIME-Version: 1.0')], [1, 1]);
  });
});
