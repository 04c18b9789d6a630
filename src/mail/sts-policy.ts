/** MTA-STS (RFC 8461): the TXT record that says a policy exists, the policy itself, and which hosts it names. */

export interface StsPolicy {
  mode: 'enforce' | 'testing' | 'none';
  /** Host names, the first label of which may be `*`. */
  mx: readonly string[];
  /** How long it is good, in seconds. */
  maxAge: number;
}

/** The reason that there is no policy although a record announces one (RFC 8460 section 4.3.2.2); `not-known`: DNS does not say. */
export type StsFault = 'sts-policy-fetch-error' | 'sts-policy-invalid' | 'sts-webpki-invalid' | 'not-known';

/** A year: more is cut (section 3.2). */
const LONGEST_AGE_S = 31_557_600;
const MOST_MX = 100;

/** Returns the `id` of the one record that is valid, or null (section 3.1: several, or a broken one, mean none). */
export function readStsRecord(texts: readonly string[]): string | null {
  const records = texts.filter((text) => text.startsWith('v=STSv1;'));
  if (records.length !== 1) return null;
  for (const field of (records[0] ?? '').split(';').slice(1)) {
    const [name = '', value = ''] = field.split('=').map((part) => part.trim());
    if (name === 'id') return /^[A-Za-z0-9]{1,32}$/.test(value) ? value : null;
  }
  return null;
}

/** Returns the policy in this text, or what is wrong with it (section 3.2). Unknown fields are passed over. */
export function readStsPolicy(text: string): { kind: 'policy'; policy: StsPolicy } | { kind: 'bad'; why: string } {
  const fields = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .map(fieldOf);
  const first = (name: string): string | null => fields.find(([key]) => key === name)?.[1] ?? null;
  if (first('version') !== 'STSv1') return { kind: 'bad', why: 'its version is not STSv1' };
  const mode = first('mode');
  if (mode !== 'enforce' && mode !== 'testing' && mode !== 'none') return { kind: 'bad', why: 'its mode is not known' };
  const age = first('max_age') ?? '';
  if (!/^\d{1,10}$/.test(age)) return { kind: 'bad', why: 'it has no max_age' };
  const mx = fields.flatMap(([key, value]) => (key === 'mx' ? [value.toLowerCase()] : []));
  if (mx.length > MOST_MX || !mx.every(isPattern)) return { kind: 'bad', why: 'it has an mx that is not a host name' };
  if (mode !== 'none' && mx.length === 0) return { kind: 'bad', why: 'it names no mx' };
  return { kind: 'policy', policy: { mode, mx, maxAge: Math.min(Number(age), LONGEST_AGE_S) } };
}

function fieldOf(line: string): readonly [string, string] {
  const at = line.indexOf(':');
  return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}

const isPattern = (name: string): boolean =>
  name.length <= 253 && /^(?:\*\.)?[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/.test(name);

/** Returns whether the policy names this host; `*` matches exactly one label (section 4.1). */
export function stsNames({ mx }: Pick<StsPolicy, 'mx'>, host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '');
  const parent = name.slice(name.indexOf('.') + 1);
  return mx.some((pattern) =>
    pattern.startsWith('*.') ? name.includes('.') && pattern.slice(2) === parent : pattern === name,
  );
}
