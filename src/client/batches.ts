/** Bulk sends after they were accepted. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import type { PostOptions, RequestOptions, Transport } from './transport.ts';
import type { BatchStatus, Operations } from './types.ts';
import { at } from './url.ts';

type List = Operations['listBatches'];

export class Batches {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** One, with its messages counted by status. */
  get(id: string, options?: RequestOptions): Call<BatchStatus> {
    return this.#transport.call('GET', at`/v1/batches/${id}`, { options });
  }

  /** One page, newest first. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.#transport.call('GET', '/v1/batches', { query, options });
  }

  /** All of them, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<BatchStatus, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  /** Whatever of it has not been sent yet. */
  cancel(id: string, options?: PostOptions): Call<BatchStatus> {
    return this.#transport.call('POST', at`/v1/batches/${id}/cancel`, { options });
  }
}
