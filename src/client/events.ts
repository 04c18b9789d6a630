/** The events of messages: page by page, or as they happen. */
import type { Call } from './call.ts';
import type { MailEvent } from './event.ts';
import { Resource, type RequestOptions } from './transport.ts';
import type { Operations, Page } from './types.ts';

type Query = Operations['listEvents']['query'];

/** Seconds that the service waits for a new event, its limit. */
const LONGEST_WAIT_S = 30;

export class Events extends Resource {
  /** Returns one page, oldest first. `next_cursor` is always set: it is the position reached. */
  list(query?: Query, options?: RequestOptions): Call<Page<MailEvent>> {
    const serverWaitMs = 1000 * (query?.wait ?? 0);
    return this.transport.call('GET', '/v1/events', { query, options, serverWaitMs });
  }

  /**
   * Returns all events, or those after `after` (a cursor or an event id), and then each new one as it happens. Ends only when
   * the loop is left, the signal aborts or all tries of a request have failed; to continue, store the id of the last event.
   */
  async *stream(query?: Omit<Query, 'before'>, options?: RequestOptions): AsyncGenerator<MailEvent, void, undefined> {
    let after = query?.after;
    for (;;) {
      const page: Page<MailEvent> = await this.list({ wait: LONGEST_WAIT_S, ...query, after }, options);
      yield* page.data;
      after = page.next_cursor ?? after;
    }
  }
}
