/** Lists of Postmark: mails, bounces and suppressions. */
import { Problem } from '../../base/problem.ts';
import type { Reply } from '../route.ts';
import { answer, textOf, type ForeignCall, type Told } from './foreign.ts';
import { MOST, partOf, readAll, refuseOthers } from './lists.ts';

/** The stream that every account there has from the start. */
export const streamOf = (theirs: string): string => (theirs === 'outbound' ? 'transactional' : theirs);
const theirStream = (slug: unknown): unknown => (slug === 'transactional' ? 'outbound' : slug);

const statusOf = (status: unknown): string => (status === 'queued' || status === 'scheduled' ? 'Queued' : 'Sent');
const mailbox = (text: unknown): object => {
  const [, name = '', address = String(text)] = /^(.*?)\s*<([^<>]+)>$/.exec(String(text)) ?? [];
  return { Email: address, Name: name.replaceAll(/^"|"$/g, '') };
};

const shown = (one: Told): object => {
  const [to, cc, bcc] = [[one['to']], one['cc'], one['bcc']] as unknown[][];
  return {
    MessageID: one['id'],
    Tag: (one['tags'] as string[])[0] ?? '',
    To: to?.map(mailbox),
    Cc: cc?.map(mailbox),
    Bcc: bcc?.map(mailbox),
    Recipients: [...(to ?? []), ...(cc ?? []), ...(bcc ?? [])],
    ReceivedAt: one['created_at'],
    From: one['from'],
    Subject: one['subject'],
    Attachments: [],
    Status: statusOf(one['status']),
    TrackOpens: one['track_opens'],
    TrackLinks: one['track_clicks'] === true ? 'HtmlOnly' : 'None',
    Metadata: one['metadata'],
    MessageStream: theirStream(one['stream']),
    Sandboxed: one['test'],
  };
};

interface SeenEvent {
  type: string;
  timestamp: string;
  data: Told;
}

const eventNames: Readonly<Record<string, string>> = {
  sent: 'Transient',
  delivered: 'Delivered',
  bounced: 'Bounced',
  opened: 'Opened',
  clicked: 'LinkClicked',
  complained: 'SpamComplaint',
};

export const details = (one: Told): Reply =>
  answer({
    ...shown(one),
    MessageEvents: (one['events'] as SeenEvent[]).map((event) => ({
      Recipient: event.data['recipient'],
      Type: eventNames[event.type] ?? event.type,
      ReceivedAt: event.timestamp,
      Details: event.data[event.type] ?? {},
    })),
  });

const page = { size: 'count', usual: 100, most: 500 };

export async function listMessages(call: ForeignCall): Promise<Reply> {
  refuseOthers(call.query, ['count', 'offset', 'recipient', 'fromEmail', 'tag', 'subject', 'messageStream']);
  const { recipient, fromEmail, tag, subject, messageStream: theirs } = call.query;
  const stream = theirs === undefined ? undefined : streamOf(theirs);
  const filter = { to: recipient, from: fromEmail, tag, subject, stream };
  const { data, total } = await partOf(call, 'listMessages', filter, page);
  return answer({ TotalCount: total, Messages: data.map(shown) });
}

const bounceTypes: Readonly<Record<string, readonly [string, number, string]>> = {
  hard: ['HardBounce', 1, 'Hard bounce'],
  soft: ['SoftBounce', 4096, 'Soft bounce'],
  block: ['Blocked', 100006, 'ISP block'],
  complained: ['SpamComplaint', 100001, 'Spam complaint'],
};

/** A mail that bounced has one bounce, which goes by the mail's id. */
export async function bounceOf({ ask }: ForeignCall, one: Told): Promise<object> {
  const filter = { message_id: String(one['id']), type: 'bounced,complained', after: 'start' };
  const { data: events } = await readAll(ask, 'listEvents', filter, { most: 1 });
  const { type = 'bounced', timestamp, data = {} } = (events[0] ?? {}) as Partial<SeenEvent>;
  const detail = (data[type] ?? {}) as Told;
  const [name, code, words] = bounceTypes[textOf(detail['class'] ?? type)] ?? ['Unknown', 2048, 'Undetermined'];
  return {
    RecordType: 'Bounce',
    ID: one['id'],
    Type: name,
    TypeCode: code,
    Name: words,
    Tag: (one['tags'] as string[])[0] ?? '',
    MessageID: one['id'],
    Description: detail['reason'] ?? '',
    Details: detail['smtp_reply'] ?? '',
    Email: data['recipient'] ?? one['to'],
    From: one['from'],
    BouncedAt: timestamp ?? one['status_at'],
    DumpAvailable: false,
    Inactive: detail['suppression_added'] ?? false,
    CanActivate: type !== 'complained',
    Subject: one['subject'],
    MessageStream: theirStream(one['stream']),
  };
}

export async function listBounces(call: ForeignCall): Promise<Reply> {
  refuseOthers(call.query, ['count', 'offset', 'emailFilter', 'tag']);
  const filter = { status: 'bounced,complained', to: call.query['emailFilter'], tag: call.query['tag'] };
  const { data, total } = await partOf(call, 'listMessages', filter, page);
  const found: object[] = [];
  for (const one of data) found.push(await bounceOf(call, one));
  return answer({ TotalCount: total, Bounces: found });
}

const reasons: Readonly<Record<string, string>> = { hard_bounce: 'HardBounce', complaint: 'SpamComplaint' };

export async function dump({ ask, query, params: { stream = '' } }: ForeignCall): Promise<Reply> {
  refuseOthers(query, ['count', 'offset', 'emailAddress']);
  const scopes = ['account', `stream:${streamOf(stream)}`];
  const filter = { email: query['emailAddress'] };
  const wanted = ({ scope }: Told): boolean => scopes.includes(String(scope));
  const { data, hasMore } = await readAll(ask, 'listSuppressions', filter, { most: MOST, wanted });
  if (hasMore)
    throw new Problem(
      'invalid_state',
      `The list has more than ${String(MOST)} entries: read it with GET /v1/suppressions.`,
    );
  return answer({
    Suppressions: data.map((one) => ({
      EmailAddress: one['email'],
      SuppressionReason: reasons[String(one['reason'])] ?? 'ManualSuppression',
      Origin: one['created_by'] === 'recipient' || one['reason'] === 'complaint' ? 'Recipient' : 'Customer',
      CreatedAt: one['created_at'],
    })),
  });
}

export async function suppress({ ask, body, params: { stream = '' } }: ForeignCall): Promise<Reply> {
  const reply = await ask('createSuppression', { body: { ...body, stream: streamOf(stream) } });
  const { data } = ('body' in reply ? reply.body : {}) as {
    data: { email: string; error: { message: string } | null }[];
  };
  return answer({
    Suppressions: data.map(({ email: EmailAddress, error }) =>
      error === null
        ? { EmailAddress, Status: 'Suppressed', Message: null }
        : { EmailAddress, Status: 'Failed', Message: error.message },
    ),
  });
}

/** Reactivates addresses: entries of the whole account are removed as well, since a bounce makes one. */
export async function reactivate({ ask, body }: ForeignCall): Promise<Reply> {
  const done: object[] = [];
  for (const EmailAddress of (body['emails'] ?? []) as string[]) {
    const failed = await ask('deleteSuppression', { params: { email: EmailAddress } }).then(
      () => null,
      (error: unknown) => {
        if (error instanceof Problem && error.status < 500) return error.code === 'not_found' ? null : error.message;
        throw error;
      },
    );
    done.push({ EmailAddress, Status: failed === null ? 'Deleted' : 'Failed', Message: failed });
  }
  return answer({ Suppressions: done });
}
