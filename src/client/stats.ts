/** Statistics of sent mail, and the erasure of recipients. */
import type { Call } from './call.ts';
import { Resource, type RequestOptions } from './transport.ts';
import type { Operations } from './types.ts';
import { at } from './url.ts';

type Numbers = Operations['getStats'];

export class Stats extends Resource {
  get(query?: Numbers['query'], options?: RequestOptions): Call<Numbers['answer']> {
    return this.transport.call('GET', '/v1/stats', { query, options });
  }
}

export class Recipients extends Resource {
  /** Erases a person from all mail of the account. Statistics and the suppression list stay. */
  erase(email: string, options?: RequestOptions): Call<undefined> {
    return this.transport.call('DELETE', at`/v1/recipients/${email}`, { options });
  }
}
