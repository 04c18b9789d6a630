/** Stored templates. The alias can be used for the id. */
import type { Call } from './call.ts';
import { entriesOf } from './pages.ts';
import { Resource, type PostOptions, type RequestOptions } from './transport.ts';
import type { Operations, Template } from './types.ts';
import { at } from './url.ts';

type List = Operations['listTemplates'];

export class Templates extends Resource {
  create(body: Operations['createTemplate']['body'], options?: PostOptions): Call<Template> {
    return this.transport.call('POST', '/v1/templates', { body, options });
  }

  get(id: string, query?: Operations['getTemplate']['query'], options?: RequestOptions): Call<Template> {
    return this.transport.call('GET', at`/v1/templates/${id}`, { query, options });
  }

  /** Returns one page. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.transport.call('GET', '/v1/templates', { query, options });
  }

  /** Returns all templates, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<Template, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  /** Makes a new version; mail keeps using the published one. */
  update(id: string, body: Operations['updateTemplate']['body'], options?: RequestOptions): Call<Template> {
    return this.transport.call('PATCH', at`/v1/templates/${id}`, { body, options });
  }

  delete(id: string, options?: RequestOptions): Call<undefined> {
    return this.transport.call('DELETE', at`/v1/templates/${id}`, { options });
  }

  /** Publishes the latest version: mail uses it from now on. */
  publish(id: string, options?: PostOptions): Call<Template> {
    return this.transport.call('POST', at`/v1/templates/${id}/publish`, { options });
  }

  versions(id: string, options?: RequestOptions): Call<Operations['listTemplateVersions']['answer']> {
    return this.transport.call('GET', at`/v1/templates/${id}/versions`, { options });
  }

  /** Renders a mail with these variables; sends nothing. */
  render(
    body: Operations['renderTemplate']['body'],
    options?: PostOptions,
  ): Call<Operations['renderTemplate']['answer']> {
    return this.transport.call('POST', '/v1/templates/render', { body, options });
  }
}
