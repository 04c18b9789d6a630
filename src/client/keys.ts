/** API keys. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import { Resource, type PostOptions, type RequestOptions } from './transport.ts';
import type { Key, Operations } from './types.ts';
import { at } from './url.ts';

type List = Operations['listKeys'];

export class Keys extends Resource {
  /** Makes a key. Only this answer has the whole key. */
  create(body: Operations['createKey']['body'], options?: PostOptions): Call<Operations['createKey']['answer']> {
    return this.transport.call('POST', '/v1/keys', { body, options });
  }

  get(id: string, options?: RequestOptions): Call<Key> {
    return this.transport.call('GET', at`/v1/keys/${id}`, { options });
  }

  /** Returns one page. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.transport.call('GET', '/v1/keys', { query, options });
  }

  /** Returns all keys, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<Key, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  update(id: string, body: Operations['updateKey']['body'], options?: RequestOptions): Call<Key> {
    return this.transport.call('PATCH', at`/v1/keys/${id}`, { body, options });
  }

  /** Ends the key at once. */
  revoke(id: string, options?: RequestOptions): Call<undefined> {
    return this.transport.call('DELETE', at`/v1/keys/${id}`, { options });
  }
}
