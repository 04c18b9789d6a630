import assert from 'node:assert/strict';
import fc from 'fast-check';
import { CsvFault, csvLine, readCsv, unguarded } from '../../src/base/csv.ts';

function fieldsOf(...pieces: string[]): string[][] {
  const reader = readCsv();
  return [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()].map(({ fields }) => fields);
}

describe('base/csv', () => {
  for (const [text, expected, reason] of [
    [
      'a,b\nc,d\n',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
      'plain lines',
    ],
    [
      'a,b\r\nc,d',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
      'CRLF, and no end of the last line',
    ],
    ['"a,b","c ""d"""\n', [['a,b', 'c "d"']], 'quoted commas and quotes'],
    ['"a\nb",c\n', [['a\nb', 'c']], 'a line end inside quotes'],
    ['\ufeffa\n', [['a']], 'a byte order mark'],
    ['\n\na\n\n', [['a']], 'empty lines'],
    [
      'a,,\n,\n',
      [
        ['a', '', ''],
        ['', ''],
      ],
      'empty fields',
    ],
    ['""\n', [['']], 'an empty quoted field is a field'],
    ['a"b,c\n', [['a"b', 'c']], 'a quote inside a plain field stands for itself'],
    ['', [], 'nothing'],
    [
      'a;b,c\n"d;e";f\n',
      [
        ['a', 'b,c'],
        ['d;e', 'f'],
      ],
      'semicolons, where they are what comes first',
    ],
    ['a\tb;c\n', [['a', 'b;c']], 'tabs'],
    ['"a;b",c;d\n', [['a;b', 'c;d']], 'a separator within quotes decides nothing'],
    ['a\nb;c,d\n', [['a'], ['b;c', 'd']], 'commas, where the first line has no separator'],
    ['\n\r\na;b\n', [['a', 'b']], 'semicolons behind empty lines'],
    ['a\rb\r', [['a'], ['b']], 'CR, as spreadsheets for the Mac write'],
    [
      'a;b\r"c\rd";e',
      [
        ['a', 'b'],
        ['c\rd', 'e'],
      ],
      'CR with quotes',
    ],
    ['a\r\r\nb\r\n\r\n', [['a'], ['b']], 'CR and CRLF'],
  ] as const) {
    it(`reads ${JSON.stringify(text)}: ${reason}`, () => {
      assert.deepEqual(fieldsOf(text), expected);
      assert.deepEqual(fieldsOf(...Array.from(text)), expected, 'the same in pieces of one character');
    });
  }

  it('says where a record begins', () => {
    const reader = readCsv();
    const records = [...reader.push('a\n"b\nc"\nd\n'), ...reader.end()];
    assert.deepEqual(
      records.map(({ line }) => line),
      [1, 2, 4],
    );
    for (const end of ['\r', '\r\n', '\n']) {
      const lines = readCsv().push(`a${end}b${end}${end}c${end}`);
      assert.deepEqual(
        lines.map(({ line }) => line),
        [1, 2, 4],
      );
    }
  });

  for (const [text, reason] of [
    ['"a', 'a quote that is never closed'],
    ['"a"b\n', 'text after a closing quote'],
    [`"${'x'.repeat(70_000)}`, 'a field without end'],
  ] as const)
    it(`refuses ${reason}`, () => {
      assert.throws(() => fieldsOf(text), CsvFault);
    });

  it('reads what it wrote', () => {
    const field = fc.string().filter((text) => !/^'*[=+\-@\t\r\ufeff]/.test(text));
    fc.assert(
      fc.property(fc.array(field, { minLength: 2, maxLength: 5 }), (fields) => {
        assert.deepEqual(fieldsOf(`${csvLine(fields)}\n`), [fields]);
      }),
    );
  });

  it('takes back what was done to a formula', () => {
    for (const field of ['+tag@dest.test', '=x', "'a", "'=x", "''-x", "o'neil@dest.test", '']) {
      const [[read = ''] = []] = fieldsOf(`${csvLine([field, 'x'])}\n`);
      assert.equal(unguarded(read), field);
    }
  });

  it('keeps a spreadsheet from taking a field for a formula', () => {
    assert.equal(csvLine(['=1+1', '@x', 'a=b', null]), `'=1+1,'@x,a=b,`);
  });
});
