/** The Content-Type field and its parameters: RFC 2045 section 5.1, continued and encoded parameters RFC 2231. */

export interface ContentType {
  /** `type/subtype`, lower case; `text/plain` if the field is missing or is none. */
  type: string;
  /** By name in lower case, unquoted. The first of several with one name counts. */
  params: ReadonlyMap<string, string>;
}

/** Longer values are cut: what a report needs is at the front. */
const LONGEST_VALUE = 2000;
const TYPE = /^\s*([a-z0-9!#$&^_.+-]{1,100}\/[a-z0-9!#$&^_.+-]{1,100})/i;
const PARAMETER = /;\s*([^\s=;"]{1,100})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))/g;

/** Reads a Content-Type value; never fails, since a mail without a sound type is plain text (RFC 2045 section 5.2). */
export function readContentType(value: string | null): ContentType {
  const text = (value ?? '').slice(0, LONGEST_VALUE);
  const type = TYPE.exec(text)?.[1]?.toLowerCase() ?? 'text/plain';
  const params = new Map<string, string>();
  for (const [, name = '', quoted, plain = ''] of text.matchAll(PARAMETER)) {
    addParameter(params, name.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? plain);
  }
  return { type, params };
}

/** `name*0`, `name*1`: pieces that follow one another are joined; `name*`: charset and language are left out. */
function addParameter(params: Map<string, string>, name: string, value: string): void {
  const [, base = '', piece, encoded] = /^([^*]+)(?:\*(\d{1,3}))?(\*?)$/.exec(name) ?? [];
  const text = encoded === '*' ? percentDecoded(value) : value;
  if (piece !== undefined && piece !== '0') params.set(base, (params.get(base) ?? '') + text);
  else if (!params.has(base)) params.set(base, text);
}

function percentDecoded(value: string): string {
  const text = value.slice(value.lastIndexOf("'") + 1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
