/** `posthorn received save` and `posthorn inbound simulate`: mail as files. */
import { readFile, writeFile } from 'node:fs/promises';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { ReceivedMessage } from '../client/types.ts';
import type { Operator } from '../operator/door/operator.ts';
import { receivedLines } from '../presentations/received.ts';
import { printable } from '../presentations/table.ts';
import type { Context } from './cli.ts';
import { exitCodes, Refusal } from './exit-codes.ts';
import { wholeOption } from './options.ts';

const indexOption = wholeOption(0, 99);
/** It is read at once, unless much waits. */
const LOOK_MS = 200;
const LOOKS = 150;

export function addSave(received: CommandUnknownOpts, context: Context): void {
  received
    .command('save')
    .description('save a received mail, or a file of it, octet for octet')
    .argument('<id>')
    .argument('<file>', 'what it is saved as; it must not exist')
    .option('--attachment <index>', 'a file of the mail instead of its source', indexOption)
    .option('--json', 'as one JSON object')
    .action(async (id, file, { attachment, json }) => {
      const bytes = await context.operate((operator) =>
        attachment === undefined
          ? operator.bytes('getReceivedRaw', { params: { id } })
          : operator
              .bytes('getReceivedAttachment', { params: { id, index: String(attachment) } })
              .catch((error: unknown) => {
                if (!(error instanceof Problem) || error.field !== 'index') throw error;
                throw new Problem('not_found', `${error.message} See its files: posthorn received show ${id}`);
              }),
      );
      await writeFile(file, bytes, { flag: 'wx' }).catch((error: unknown) => {
        const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
        const why = isThere ? `${printable(file)}: it exists already: take another name` : String(error);
        throw new Refusal(exitCodes.cannotCreate, why);
      });
      const saved = { object: 'saved_file', id, file, bytes: bytes.length };
      context.print(json, saved, () => [`saved: ${printable(file)}, ${String(bytes.length)} bytes`]);
    });
}

export function addSimulate(inbound: CommandUnknownOpts, context: Context): void {
  inbound
    .command('simulate')
    .description(
      'hand in a mail from a file as if it came from outside, and show what came of it; exit code 1 if not taken',
    )
    .argument('<file>', 'a mail, with its header')
    .requiredOption('--to <address>', 'the recipient')
    .option('--from <address>', 'the sender of the envelope', '')
    .option('--json', 'as one JSON object')
    .action(async (file, { to, from, json }) => {
      const bytes = await readFile(file).catch((error: unknown) => {
        throw new Refusal(exitCodes.noInput, error instanceof Error ? error.message : String(error));
      });
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

/** Waits until the mail has been read. */
async function readMail(operator: Operator, id: string): Promise<ReceivedMessage> {
  for (let look = 0; ; look++) {
    const mail = await operator.ask<ReceivedMessage>('getReceived', { params: { id } });
    if (mail.status !== 'new') return mail;
    if (look === LOOKS) throw new Problem('invalid_state', `The mail ${id} was taken, and is not read yet.`);
    await systemClock.sleep(LOOK_MS);
  }
}
