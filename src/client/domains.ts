/** Sending domains. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import { Resource, type PostOptions, type RequestOptions } from './transport.ts';
import type { Domain, Operations } from './types.ts';
import { at } from './url.ts';

type List = Operations['listDomains'];

export class Domains extends Resource {
  /** Adds a domain. Publish the `records` of the answer in its DNS. */
  create(body: Operations['createDomain']['body'], options?: PostOptions): Call<Domain> {
    return this.transport.call('POST', '/v1/domains', { body, options });
  }

  get(id: string, options?: RequestOptions): Call<Domain> {
    return this.transport.call('GET', at`/v1/domains/${id}`, { options });
  }

  /** Returns one page of the verified domains; with `status: 'any'` of all. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.transport.call('GET', '/v1/domains', { query, options });
  }

  /** Returns all domains, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<Domain, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  update(id: string, body: Operations['updateDomain']['body'], options?: RequestOptions): Call<Domain> {
    return this.transport.call('PATCH', at`/v1/domains/${id}`, { body, options });
  }

  delete(id: string, options?: RequestOptions): Call<undefined> {
    return this.transport.call('DELETE', at`/v1/domains/${id}`, { options });
  }

  /** Checks the DNS records now. */
  verify(id: string, options?: PostOptions): Call<Domain> {
    return this.transport.call('POST', at`/v1/domains/${id}/verify`, { options });
  }

  /** Makes the next DKIM keys. */
  rotateDkim(id: string, options?: PostOptions): Call<Domain> {
    return this.transport.call('POST', at`/v1/domains/${id}/dkim/rotate`, { options });
  }
}
