/** The API as a collection for Postman (format 2.1): one folder for each tag, each request with its first example. Pure. */

/** One request of the collection. */
export interface PostmanRequest {
  tag: string;
  name: string;
  description: string;
  method: string;
  /** In OpenAPI notation. */
  path: string;
  query: readonly { name: string; description: string }[];
  /** The body as JSON, or null. */
  body: string | null;
}

/** Returns the collection. Address and key are variables, so the file holds no secret. */
export function postmanCollection(name: string, url: string, requests: readonly PostmanRequest[]): object {
  const tags = [...new Set(requests.map(({ tag }) => tag))];
  return {
    info: { name, schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json' },
    auth: { type: 'bearer', bearer: [{ key: 'token', value: '{{api_key}}', type: 'string' }] },
    variable: [
      { key: 'base_url', value: url },
      { key: 'api_key', value: '' },
    ],
    item: tags.map((tag) => ({ name: tag, item: requests.filter((one) => one.tag === tag).map(item) })),
  };
}

function item({ name, description, method, path, query, body }: PostmanRequest): object {
  const parts = path.split('/').filter((part) => part !== '');
  const named = parts.map((part) => part.replace(/^\{([^}]*)\}$/, ':$1'));
  return {
    name,
    request: {
      method,
      description,
      header: body === null ? [] : [{ key: 'Content-Type', value: 'application/json' }],
      ...(body === null ? {} : { body: { mode: 'raw', raw: body, options: { raw: { language: 'json' } } } }),
      url: {
        raw: `{{base_url}}/${named.join('/')}`,
        host: ['{{base_url}}'],
        path: named,
        variable: named.filter((part) => part.startsWith(':')).map((part) => ({ key: part.slice(1), value: '' })),
        // Disabled at first: an empty parameter would be refused.
        query: query.map((one) => ({ key: one.name, value: '', description: one.description, disabled: true })),
      },
    },
  };
}
