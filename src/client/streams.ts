/** Streams: kinds of mail that are sent, paused and unsubscribed from apart. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import type { PostOptions, RequestOptions, Transport } from './transport.ts';
import type { Operations, Stream } from './types.ts';
import { at } from './url.ts';

type List = Operations['listStreams'];

export class Streams {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  create(body: Operations['createStream']['body'], options?: PostOptions): Call<Stream> {
    return this.#transport.call('POST', '/v1/streams', { body, options });
  }

  /** One page. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.#transport.call('GET', '/v1/streams', { query, options });
  }

  /** All of them, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<Stream, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  /** Also pauses and resumes it: `{ paused: true }`. */
  update(id: string, body: Operations['updateStream']['body'], options?: RequestOptions): Call<Stream> {
    return this.#transport.call('PATCH', at`/v1/streams/${id}`, { body, options });
  }

  delete(id: string, options?: RequestOptions): Call<undefined> {
    return this.#transport.call('DELETE', at`/v1/streams/${id}`, { options });
  }
}
