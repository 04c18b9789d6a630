/** Bulk sends after their acceptance. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import { Resource, type PostOptions, type RequestOptions } from './transport.ts';
import type { BatchStatus, Operations } from './types.ts';
import { at } from './url.ts';

type List = Operations['listBatches'];

export class Batches extends Resource {
  /** Returns a batch with its messages counted by status. */
  get(id: string, options?: RequestOptions): Call<BatchStatus> {
    return this.transport.call('GET', at`/v1/batches/${id}`, { options });
  }

  /** Returns one page, newest first. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.transport.call('GET', '/v1/batches', { query, options });
  }

  /** Returns all batches, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<BatchStatus, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  /** Cancels the messages that are not sent yet. */
  cancel(id: string, options?: PostOptions): Call<BatchStatus> {
    return this.transport.call('POST', at`/v1/batches/${id}/cancel`, { options });
  }
}
