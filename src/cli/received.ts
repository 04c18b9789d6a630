/** `posthorn received save` and `posthorn inbound simulate`: mail as files. */
import { readFile, writeFile } from 'node:fs/promises';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { ReceivedMessage } from '../client/types.ts';
import type { Operator } from '../operator/door/operator.ts';
import { helpOf } from '../operations/summaries.ts';
import { receivedLines } from '../presentations/received.ts';
import { printable } from '../presentations/table.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { groupAt } from './derive.ts';
import { wholeOption } from './options.ts';

const indexOption = wholeOption(0, 99);
/** It is read at once, unless much waits. */
const LOOK_MS = 200;
const LOOKS = 150;

export function addReceived(program: CommandUnknownOpts, context: Context): void {
  groupAt(program, ['received'])
    .command('save')
    .description(helpOf('getReceivedRaw', 'save'))
    .argument('<id>')
    .argument('<file>', 'what it is saved as; it must not exist')
    .option('--attachment <index>', 'a file of the mail instead of its source', indexOption)
    .option('--json', 'as one JSON object')
    .action(async (id, file, { attachment, json }) => {
      const bytes = await context.operate((operator) =>
        attachment === undefined
          ? operator.bytes('getReceivedRaw', { params: { id } })
          : operator.bytes('getReceivedAttachment', { params: { id, index: String(attachment) } }),
      );
      await writeFile(file, bytes, { flag: 'wx' }).then(
        () => {
          const saved = { object: 'saved_file', id, file, bytes: bytes.length };
          context.print(json, saved, () => [`saved: ${printable(file)}, ${String(bytes.length)} bytes`]);
        },
        (error: unknown) => {
          const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
          const said = isThere ? new Error(`${printable(file)}: it exists already: take another name`) : error;
          endBy(context, said, exitCodes.cannotCreate);
        },
      );
    });
  groupAt(program, ['inbound'])
    .command('simulate')
    .description(helpOf('inbound.simulate'))
    .argument('<file>', 'a mail, with its header')
    .requiredOption('--to <address>', 'the recipient')
    .option('--from <address>', 'the sender of the envelope', '')
    .option('--json', 'as one JSON object')
    .action(async (file, { to, from, json }) => {
      const bytes = await readFile(file).catch((error: unknown) => endBy(context, error, exitCodes.noInput));
      if (bytes === null) return;
      const mail = bytes.toString('base64');
      const mailOf = await context.operate(async (operator) => {
        const handed = await operator.call('inbound.simulate', { to, from, mail });
        if (!handed.taken) {
          context.note(`posthorn: it was not taken: ${handed.reply}`);
          context.end(1);
        } else if (handed.received_id === null)
          context.note(`posthorn: taken by one of our own addresses: ${handed.reply}`);
        return handed.received_id === null ? null : await readMail(operator, handed.received_id);
      });
      if (mailOf !== null) context.print(json, mailOf, () => receivedLines(mailOf));
    });
}

/** Says why a file could not be used, which is the first line of the error. */
function endBy(context: Context, error: unknown, code: number): null {
  context.note(`posthorn: ${error instanceof Error ? error.message : String(error)}`);
  context.end(code);
  return null;
}

/** Waits until the mail has been read. */
async function readMail(operator: Operator, id: string): Promise<ReceivedMessage> {
  for (let look = 0; ; look++) {
    const mail = await operator.ask<ReceivedMessage>('getReceived', { params: { id } });
    if (mail.status !== 'new') return mail;
    if (look === LOOKS) throw new Problem('invalid_state', `The mail ${id} was taken, and is not read yet.`);
    await systemClock.sleep(LOOK_MS);
  }
}
