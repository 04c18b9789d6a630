import assert from 'node:assert/strict';
import { readLine, type Step } from './trace.ts';

const hex = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
const DB = hex('/d/posthorn.db');
const SOCKET = hex('socket:[77]');

/** Returns the events of lines that belong together. */
const read = (...lines: string[]): (Step | null)[] => {
  const unfinished = new Map<string, string>();
  return lines.map((line) => readLine(line, unfinished));
};

describe('reading a trace', () => {
  const write = { kind: 'write', file: '/d/posthorn.db', at: 4096, bytes: Buffer.from('ab') };
  const cases: [string, string[], unknown[]][] = [
    ['a write', [`12 pwrite64(19<${DB}>, "${hex('ab')}", 2, 4096) = 2`], [write]],
    [
      'a write that another thread interrupts counts from its beginning',
      [`12 pwrite64(19<${DB}>, "${hex('ab')}", 2, 4096 <unfinished ...>`, '12 <... pwrite64 resumed>) = 2'],
      [write, null],
    ],
    ['a sync', [`12 fdatasync(19<${DB}>) = 0`], [{ kind: 'sync', file: '/d/posthorn.db' }]],
    [
      'a sync counts from its end',
      [
        `12 fdatasync(19<${DB}> <unfinished ...>`,
        `13 fsync(4<${SOCKET}>) = -1 EINVAL`,
        '12 <... fdatasync resumed>) = 0',
      ],
      [null, null, { kind: 'sync', file: '/d/posthorn.db' }],
    ],
    ['a sync that failed', [`12 fsync(19<${DB}>) = -1 EIO (Input/output error)`], [null]],
    ['a cut', [`12 ftruncate(19<${DB}>, 512) = 0`], [{ kind: 'truncate', file: '/d/posthorn.db', size: 512 }]],
    [
      'an answer',
      [`12 write(30<${SOCKET}>, "${hex('HTTP/1.1 202 ')}", 13) = 13`],
      [{ kind: 'told', text: 'HTTP/1.1 202 ' }],
    ],
    [
      'an answer in parts',
      [
        `12 writev(30<${SOCKET}>, [{iov_base="${hex('202 ')}", iov_len=4}, {iov_base="${hex('msg')}", iov_len=3}], 2) = 7`,
      ],
      [{ kind: 'told', text: '202 msg' }],
    ],
    ['a line of the log', [`12 write(1<${hex('/d/out.log')}>, "${hex('{}')}", 2) = 2`], [null]],
    ['the end of a thread', ['12 +++ exited with 0 +++'], [null]],
  ];
  for (const [name, lines, steps] of cases) {
    it(name, () => {
      assert.deepEqual(read(...lines), steps);
    });
  }

  it('does not take a part of a write for the whole', () => {
    assert.throws(() => read(`12 pwrite64(19<${DB}>, "${hex('ab')}"..., 2, 4096) = 2`), /longer than was traced/);
  });
});
