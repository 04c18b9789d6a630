/** A browser without a screen: keeps cookies, fills in the forms it is shown with their tokens, follows redirects. */
import assert from 'node:assert/strict';

export interface Seen {
  status: number;
  /** Path and query of the page that was shown last. */
  at: string;
  html: string;
  headers: Headers;
}

export type Fields = Readonly<Record<string, string | readonly string[]>>;

export class Browser {
  readonly cookies = new Map<string, string>();
  readonly #url: string;
  #last: Seen = { status: 0, at: '/', html: '', headers: new Headers() };

  constructor(url: string) {
    this.#url = url;
  }

  /** The same browser at another node, which a balancer may choose for any request. */
  at(url: string): Browser {
    const other = new Browser(url);
    for (const [name, value] of this.cookies) other.cookies.set(name, value);
    other.#last = this.#last;
    return other;
  }

  get last(): Seen {
    return this.#last;
  }

  /** One request, redirects not followed. */
  async ask(
    method: string,
    where: string,
    { fields, headers = {} }: { fields?: Fields | undefined; headers?: Record<string, string> } = {},
  ): Promise<Response> {
    const body = fields === undefined ? undefined : encoded(fields);
    const response = await fetch(`${this.#url}${where}`, {
      method,
      redirect: 'manual',
      headers: {
        ...(this.cookies.size === 0
          ? {}
          : { cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ') }),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
    });
    for (const cookie of response.headers.getSetCookie()) {
      assert.match(cookie, /; samesite=lax;.*\bhttponly$/i, 'a script, or another site, could use this cookie');
      const [pair = ''] = cookie.split(';');
      const [name = '', value = ''] = pair.split('=');
      if (/expires=Thu, 01 Jan 1970/i.test(cookie)) this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return response;
  }

  async open(where: string): Promise<Seen> {
    return await this.#follow('GET', where);
  }

  /** Sends the form of the page shown last that goes to `action`, with its hidden fields. */
  async submit(action: string, fields: Fields = {}): Promise<Seen> {
    return await this.#follow('POST', action, { _token: this.token(), ...fields });
  }

  /** The token in the page shown last. */
  token(): string {
    const token = /name="_token" value="([^"]+)"/.exec(this.#last.html)?.[1];
    assert.ok(token, `no form in ${this.#last.at}: ${this.#last.html.slice(0, 400)}`);
    return token;
  }

  /** Value of a field of the page shown last. */
  field(name: string): string {
    const value = new RegExp(`name="${name}" value="([^"]*)"`).exec(this.#last.html)?.[1];
    assert.ok(value !== undefined, `no field ${name} in ${this.#last.at}`);
    return value.replaceAll('&#x3D;', '=').replaceAll('&amp;', '&');
  }

  async #follow(method: string, where: string, fields?: Fields): Promise<Seen> {
    let at = where;
    let response = await this.ask(method, at, { fields });
    // A page would be sent again by a reload, so what was done ends in a redirect; previews change nothing, and a form whose answer shows
    // a secret is done once (dashboard-sent-twice.test.ts).
    const mayShow =
      /^\/(?:templates\/(?:preview|\w+\/fill)$|messages\/\w+\/share$|developer\/keys|webhooks|team|profile)/.test(
        where,
      );
    assert.ok(method !== 'POST' || response.status >= 300 || mayShow, `a reload would repeat POST ${where}`);
    for (let hops = 0; response.status === 303 && hops < 5; hops++) {
      await response.arrayBuffer();
      at = response.headers.get('location') ?? '';
      response = await this.ask('GET', at);
    }
    this.#last = { status: response.status, at, html: await response.text(), headers: response.headers };
    return this.#last;
  }
}

function encoded(fields: Fields): URLSearchParams {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(fields))
    for (const one of typeof value === 'string' ? [value] : value) form.append(name, one);
  return form;
}

export const PASSWORD = 'correct horse battery staple';

/** Makes the first administrator through the set-up link, and is then signed in. */
export async function signedIn(
  url: string,
  operator: { call(name: 'admin.reset', args: object): Promise<{ url: string }> },
  email = 'ana@example.net',
): Promise<Browser> {
  const browser = new Browser(url);
  const link = new URL((await operator.call('admin.reset', {})).url).pathname;
  await browser.open(link);
  const seen = await browser.submit(link, { email, password: PASSWORD, password_again: PASSWORD });
  assert.equal(seen.at, '/welcome', seen.html);
  return browser;
}

/** The secret of a second factor, as the page that offers it shows it. */
export function secretIn(html: string): Buffer {
  const text = (/<pre>([A-Z2-7 ]+)<\/pre>/.exec(html)?.[1] ?? '').replaceAll(' ', '');
  let bits = '';
  for (const letter of text) bits += 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
