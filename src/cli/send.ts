/** `posthorn send`: one mail from the shell. */
import type { Command } from '@commander-js/extra-typings';
import type { Message } from '../client/types.ts';
import { lookAtSocket, socketPath } from '../operator/door/socket.ts';
import { notRunning } from '../base/unavailable.ts';
import type { Context } from './cli.ts';

export function addSend(command: Command, context: Context): void {
  command
    .requiredOption('--from <mailbox>', 'of a verified domain: `a@example.com` or `Name <a@example.com>`')
    .requiredOption('--to <mailbox>')
    .requiredOption('--subject <subject>')
    .option('--text <text>', 'without it and --html, the text is read from standard input')
    .option('--html <html>')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ from, to, subject, text, html, account, json }) => {
      // Before anything is read or opened: without a server a database would be made, or migrated, for a mail that is refused.
      const { config } = context.load();
      if ((await lookAtSocket(socketPath(config.dataDir))) !== 'live') throw notRunning();
      const fromInput = text === undefined && html === undefined;
      const body = fromInput ? { text: await context.read(config.limits.textBytes) } : { text, html };
      const message = await context.operate((operator) =>
        operator.ask<Message>('sendMessage', { account, body: { from, to, subject, ...body } }),
      );
      context.print(json, message, () => [`${message.id} is ${message.status}`]);
      if (json !== true) context.note(`To follow it: posthorn messages trace ${message.id}`);
    });
}
