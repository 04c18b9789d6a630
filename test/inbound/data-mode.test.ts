/** The octets of a mail out of those on the wire: as smtp-server itself reads them, however they are cut. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import fc from 'fast-check';
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js';
import { giveBack } from '../../src/base/bytes.ts';
import { feedDirectly, readData } from '../../src/inbound/data-mode.ts';
import type { SmtpConnection } from '../../src/inbound/smtp-connection.ts';

/** The result of some octets: the mail, or null if it has not ended; and the commands behind it. */
interface Outcome {
  mail: string | null;
  size: number;
  commands: string[];
}

async function read(
  isDirect: boolean,
  wire: string,
  cuts: readonly number[],
  taken: (piece: Buffer) => void = () => undefined,
): Promise<Outcome> {
  const parser = new SMTPStream();
  const commands: string[] = [];
  parser.oncommand = (command, next) => {
    commands.push(command.toString('latin1'));
    next?.();
  };
  if (isDirect) feedDirectly({ _parser: parser, _createParser: () => parser } as unknown as SmtpConnection);
  const stream = parser.startDataMode();
  const pieces: Buffer[] = [];
  let mail: string | null = null;
  const take = (piece: Buffer): void => {
    pieces.push(Buffer.from(piece));
    taken(piece);
  };
  const ended = isDirect ? readData(stream, take) : once(stream.on('data', take), 'end');
  void ended.then(() => {
    mail = Buffer.concat(pieces).toString('latin1');
    parser.continue();
  });
  let from = 0;
  for (const to of [...cuts.map((cut) => cut % (wire.length + 1)).sort((a, b) => a - b), wire.length]) {
    if (to > from) await new Promise((resolve) => parser.write(Buffer.from(wire.slice(from, to), 'latin1'), resolve));
    from = Math.max(from, to);
  }
  await new Promise((resolve) => setImmediate(resolve));
  return { mail, size: parser.dataBytes, commands };
}

const line = fc.constantFrom('', '.', '..', '.x', 'x', 'x.', '...', 'x'.repeat(70));
const lineEnd = fc.constantFrom('\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', '\n\r');
/** The first line is not empty: smtp-server overlooks a stuffed dot behind a bare LF that is the first octet. */
const text = fc
  .tuple(fc.constantFrom('x', '..', '.x', '...'), fc.array(fc.tuple(lineEnd, line), { maxLength: 12 }))
  .map(([first, lines]) => first + lines.flat().join(''));

describe('inbound/data-mode', () => {
  it('reads what smtp-server reads, however it is cut', () =>
    fc.assert(
      fc.asyncProperty(text, fc.array(fc.nat(), { maxLength: 8 }), async (before, cuts) => {
        const wire = `${before}\r\n.\r\nRSET\r\nNOOP\r\n`;
        assert.deepEqual(await read(true, wire, cuts), await read(false, wire, cuts));
      }),
      { numRuns: 3000 },
    ));

  for (const [name, wire, mail] of [
    ['an empty mail', '.\r\n', ''],
    ['a stuffed dot as the first octet', '..\r\n.\r\n', '.\r\n'],
    ['stuffed dots', 'a\r\n..\r\n...b\r\n.\r\n', 'a\r\n.\r\n..b\r\n'],
    ['no end at bare line ends', 'a\n.\r\nb\r\n.\nc\r\n.\r\n', 'a\n.\r\nb\r\n.\nc\r\n'],
    ['no end in a dot that was stuffed', 'a\r\n..\r\nRSET\r\n.\r\n', 'a\r\n.\r\nRSET\r\n'],
  ] as const)
    it(`sees ${name}, also octet by octet`, async () => {
      for (const cuts of [[], Array.from({ length: wire.length }, (_, at) => at)])
        assert.deepEqual(await read(true, `${wire}NOOP\r\n`, cuts), { mail, size: mail.length, commands: ['NOOP'] });
    });

  it('keeps the commands behind a mail whose memory the taker has given back', async () => {
    const mail = `${'x'.repeat(998)}\r\n`.repeat(64);
    const outcome = await read(true, `${mail}.\r\nRSET\r\nNOOP\r\n`, [], (piece) => {
      giveBack([piece]);
      assert.equal(piece.length, 0);
    });
    assert.deepEqual(outcome, { mail, size: mail.length, commands: ['RSET', 'NOOP'] });
  });

  it('rejects if the client leaves in the middle', async () => {
    const parser = new SMTPStream();
    feedDirectly({ _parser: parser, _createParser: () => parser } as unknown as SmtpConnection);
    const stream = parser.startDataMode();
    const reading = readData(stream, () => undefined);
    parser.write('half a mail');
    stream.destroy(new Error('gone'));
    await assert.rejects(reading, /gone/);
  });
});
