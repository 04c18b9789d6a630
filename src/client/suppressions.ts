/** The suppression list: addresses that get no mail. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import { Resource, type PostOptions, type RequestOptions } from './transport.ts';
import type {
  NewSuppressions,
  Operations,
  Suppression,
  SuppressionImport,
  SuppressionImportResult,
  SuppressionResults,
} from './types.ts';
import { at } from './url.ts';

type List = Operations['listSuppressions'];

export class Suppressions extends Resource {
  /** Adds an address; if it is already on the list, returns the old entry. */
  create(
    body: Omit<NewSuppressions, 'emails' | 'email'> & { email: string },
    options?: PostOptions,
  ): Call<Suppression> {
    return this.transport.call('POST', '/v1/suppressions', { body, options });
  }

  /** Adds up to 1,000 addresses; `data[n].result` has the result of each. */
  createMany(
    body: Omit<NewSuppressions, 'emails' | 'email'> & { emails: readonly string[] },
    options?: PostOptions,
  ): Call<SuppressionResults> {
    return this.transport.call('POST', '/v1/suppressions', { body, options });
  }

  /** Adds the addresses of an export of this or another service; with `preview` it only says what it reads. */
  import(body: SuppressionImport, options?: PostOptions): Call<SuppressionImportResult> {
    return this.transport.call('POST', '/v1/suppressions/import', { body, options });
  }

  /** Returns the entry of an address. `not_found`: it is not suppressed. */
  get(email: string, query?: Operations['getSuppression']['query'], options?: RequestOptions): Call<Suppression> {
    return this.transport.call('GET', at`/v1/suppressions/${email}`, { query, options });
  }

  /** Returns one page, newest first. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.transport.call('GET', '/v1/suppressions', { query, options });
  }

  /** Returns all entries, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<Suppression, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  /** Removes an address; an entry made by a complaint only with `force: 'true'`. */
  delete(email: string, query?: Operations['deleteSuppression']['query'], options?: RequestOptions): Call<undefined> {
    return this.transport.call('DELETE', at`/v1/suppressions/${email}`, { query, options });
  }
}
