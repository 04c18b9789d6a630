/** Streams: kinds of mail with their own sending, pauses and unsubscriptions. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import { Resource, type PostOptions, type RequestOptions } from './transport.ts';
import type { Operations, Stream } from './types.ts';
import { at } from './url.ts';

type List = Operations['listStreams'];

export class Streams extends Resource {
  create(body: Operations['createStream']['body'], options?: PostOptions): Call<Stream> {
    return this.transport.call('POST', '/v1/streams', { body, options });
  }

  /** Returns one page. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.transport.call('GET', '/v1/streams', { query, options });
  }

  /** Returns all streams, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<Stream, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  /** Changes a stream; also pauses and resumes it: `{ paused: true }`. */
  update(id: string, body: Operations['updateStream']['body'], options?: RequestOptions): Call<Stream> {
    return this.transport.call('PATCH', at`/v1/streams/${id}`, { body, options });
  }

  delete(id: string, options?: RequestOptions): Call<undefined> {
    return this.transport.call('DELETE', at`/v1/streams/${id}`, { options });
  }
}
