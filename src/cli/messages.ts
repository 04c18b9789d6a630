/** `posthorn messages list|show|why|trace`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { EventRecord, Message, MessageDetails, Why } from '../client/types.ts';
import { askList } from '../operator/operator.ts';
import type { ResultOf } from '../operator/routes.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { noteMore } from './note-more.ts';
import { limitOption, listOption } from './options.ts';
import { printable, table, type Cell } from './table.ts';

export function addMessages(program: CommandUnknownOpts, context: Context): void {
  const messages = program.command('messages').description('messages and their deliveries');
  messages
    .command('list')
    .description(helpOf('listMessages'))
    .option('--status <statuses>', 'only these: queued,deferred,...', listOption<string>)
    .option('--from <address>')
    .option('--to <address>', 'an address among the recipients')
    .option('--request <id>', 'what this API request made: the `X-Request-Id` of its answer')
    .option('--limit <n>', 'the most to show', limitOption, 50)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ account, status, from, to, request, limit, json }) => {
      const list = await context.operate((operator) =>
        askList<Message>(operator, 'listMessages', {
          account,
          query: { status: status?.join(','), from, to, request_id: request },
          limit,
        }),
      );
      context.print(json, list, () =>
        table(
          ['CREATED', 'ID', 'STATUS', 'TO', 'SUBJECT'],
          list.data.map((message) => [message.created_at, message.id, message.status, message.to, message.subject]),
        ),
      );
      noteMore(context, json, list, { limit, beyond: '`posthorn export messages` writes all' });
    });
  messages
    .command('show')
    .description(helpOf('getMessage'))
    .argument('<id>')
    .option('--json', 'as one JSON object')
    .action((id, { json }) => context.showAnswer(json, 'getMessage', { params: { id } }, messageLines));
  messages
    .command('why')
    .description(helpOf('explainMessage'))
    .argument('<id>')
    .option('--json', 'as one JSON object')
    .action((id, { json }) =>
      context.showAnswer<Why>(json, 'explainMessage', { params: { id } }, (why) =>
        table(
          ['RECIPIENT', 'STATUS', 'REASON', 'SINCE', 'UNTIL', 'SET BY', 'WHY'],
          why.recipients.map((one) => [
            one.email,
            one.status,
            one.reason,
            one.since,
            one.until,
            one.set_by,
            one.message,
          ]),
        ),
      ),
    );
  messages
    .command('trace')
    .description(helpOf('messages.trace'))
    .argument('<id>', 'of a message, or of the API request that made it (req_...)')
    .option('--json', 'as one JSON object')
    .action((id, { json }) =>
      context.show(json, 'messages.trace', { id }, ({ data }) => traceLines(data, id.startsWith('req_'))),
    );
}

/** Writes the lines of each message; `isNamed`: under its id. */
const traceLines = (lines: ResultOf<'messages.trace'>['data'], isNamed: boolean): string[] =>
  lines.flatMap(({ message_id: id, at, what, recipient, text }, place) => {
    const line = [at, what.padEnd(8), ...(recipient === null ? [] : [printable(recipient)]), printable(text)].join(
      '  ',
    );
    return isNamed && lines[place - 1]?.message_id !== id ? [id, line] : [line];
  });

function messageLines(message: MessageDetails): string[] {
  const facts: [string, Cell][] = [
    ['id', message.id],
    ['status', `${message.status} since ${message.status_at}`],
    ['from', message.from],
    ['to', message.to],
    ['cc', message.cc.join(', ')],
    ['bcc', message.bcc.join(', ')],
    ['subject', message.subject],
    ['stream', message.stream],
    ['created', message.created_at],
    ['send at', message.send_at],
    ['Message-ID', message.rfc_message_id],
    ['simulated', message.test],
  ];
  const shown = facts.filter(([, value]) => value !== '' && value !== null);
  const [, ...lines] = table(['', ''], shown);
  return [
    ...lines,
    '',
    ...table(
      ['RECIPIENT', 'TYPE', 'STATUS', 'ATTEMPTS', 'NEXT TRY', 'REPLY'],
      message.recipients.map((one) => [
        one.email,
        one.type,
        one.status,
        one.attempt_count,
        one.next_attempt_at,
        one.smtp?.reply,
      ]),
    ),
    '',
    ...table(
      ['ATTEMPT', 'AT', 'RECIPIENT', 'OUTCOME', 'HOST', 'REPLY'],
      message.attempts.map((one) => [one.number, one.ended_at, one.recipient, one.outcome, one.mx, one.smtp_reply]),
    ),
    '',
    ...table(
      ['EVENT', 'AT', 'RECIPIENT', 'STATUS', 'REASON', 'SEQUENCE'],
      message.events.map((one) => [
        one.type,
        one.timestamp,
        one.data.recipient,
        one.data.status,
        reasonOf(one),
        one.sequence,
      ]),
    ),
  ];
}

/** Returns why the event happened, in a word, and of mail that failed here in a sentence. */
const reasonOf = ({ data: { bounced, deferred, suppressed, failed } }: EventRecord): string | undefined =>
  failed?.message ?? (bounced ?? deferred ?? suppressed)?.reason;
