/** Sends mail and follows it. */
import { withBase64, type WithBytes } from './attachments.ts';
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import { Resource, type PostOptions, type RequestOptions } from './transport.ts';
import type { Batch, BulkMessage, Message, Operations, SingleMessage } from './types.ts';
import { at } from './url.ts';

type List = Operations['listMessages'];

export class Messages extends Resource {
  /** Sends one mail. The content of a file is base64, or bytes. */
  send(body: WithBytes<SingleMessage>, options?: PostOptions): Call<Message> {
    return this.transport.call('POST', '/v1/messages', { body: withBase64(body), options });
  }

  /** Sends a message to each of `recipients`. Refused entries have an error: `data[n].error`. */
  sendBulk(body: WithBytes<BulkMessage>, options?: PostOptions): Call<Batch> {
    return this.transport.call('POST', '/v1/messages', { body: withBase64(body), options });
  }

  /** Returns one message with its recipients, last attempts and last events; with `expand: 'content'` also its body. */
  get(
    id: string,
    query?: Operations['getMessage']['query'],
    options?: RequestOptions,
  ): Call<Operations['getMessage']['answer']> {
    return this.transport.call('GET', at`/v1/messages/${id}`, { query, options });
  }

  /** Returns one page, newest first. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.transport.call('GET', '/v1/messages', { query, options });
  }

  /** Counts what `list` has with these filters, up to 10,000; `has_more` if there may be more. */
  count(
    query?: Operations['getMessageCount']['query'],
    options?: RequestOptions,
  ): Call<Operations['getMessageCount']['answer']> {
    return this.transport.call('GET', '/v1/messages/count', { query, options });
  }

  /** Returns all messages, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<Message, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  /** Moves the time of sending, before the first attempt. */
  update(id: string, body: Operations['updateMessage']['body'], options?: RequestOptions): Call<Message> {
    return this.transport.call('PATCH', at`/v1/messages/${id}`, { body, options });
  }

  /** Cancels the recipients that are not sent yet. */
  cancel(id: string, options?: PostOptions): Call<Message> {
    return this.transport.call('POST', at`/v1/messages/${id}/cancel`, { options });
  }

  /** Sends the stored content again, as a new message. */
  resend(id: string, { to, ...options }: PostOptions & { to?: string } = {}): Call<Message> {
    const body = to === undefined ? {} : { body: { to } };
    return this.transport.call('POST', at`/v1/messages/${id}/resend`, { ...body, options });
  }

  /** Returns every SMTP attempt: the server, its replies, the times. */
  attempts(id: string, options?: RequestOptions): Call<Operations['listMessageAttempts']['answer']> {
    return this.transport.call('GET', at`/v1/messages/${id}/attempts`, { options });
  }

  /** Returns the reports: bounces, complaints and answers that came back by mail. */
  reports(id: string, options?: RequestOptions): Call<Operations['listMessageReports']['answer']> {
    return this.transport.call('GET', at`/v1/messages/${id}/reports`, { options });
  }

  /** Returns the raw mail of a report. */
  rawReport(id: string, reportId: string, options?: RequestOptions): Call<Uint8Array> {
    return this.transport.call('GET', at`/v1/messages/${id}/reports/${reportId}`, { isRaw: true, options });
  }

  /** Returns the content of a report: subject, text, html and files. */
  reportContent(
    id: string,
    reportId: string,
    options?: RequestOptions,
  ): Call<Operations['getMessageReportContent']['answer']> {
    return this.transport.call('GET', at`/v1/messages/${id}/reports/${reportId}/content`, { options });
  }

  /** Returns the webhook calls that were made about the message, oldest first. */
  webhookDeliveries(id: string, options?: RequestOptions): Call<Operations['listMessageWebhookDeliveries']['answer']> {
    return this.transport.call('GET', at`/v1/messages/${id}/webhook-deliveries`, { options });
  }

  /** Explains what each recipient waits for, and until when. */
  why(id: string, options?: RequestOptions): Call<Operations['explainMessage']['answer']> {
    return this.transport.call('GET', at`/v1/messages/${id}/why`, { options });
  }

  /** Returns the bytes that the recipient gets, with header and signatures. */
  raw(id: string, options?: RequestOptions): Call<Uint8Array> {
    return this.transport.call('GET', at`/v1/messages/${id}/raw`, { isRaw: true, options });
  }

  /** Erases the stored body of a finished message. */
  eraseContent(id: string, options?: RequestOptions): Call<undefined> {
    return this.transport.call('DELETE', at`/v1/messages/${id}/content`, { options });
  }

  /** Returns the stored body. */
  content(id: string, options?: RequestOptions): Call<Operations['getMessageContent']['answer']> {
    return this.transport.call('GET', at`/v1/messages/${id}/content`, { options });
  }
}
