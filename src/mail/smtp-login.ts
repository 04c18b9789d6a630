/** The commands that sign in at a mail host: AUTH PLAIN or AUTH LOGIN (RFC 4954, RFC 4616). Pure. */

export interface Login {
  user: string;
  password: string;
}

export const NO_KNOWN_LOGIN = 'the server offers neither AUTH PLAIN nor AUTH LOGIN';

/**
 * Returns the lines to send in turn while the server asks for more (334), or null if it offers no mechanism of these.
 * `mechanisms` are upper-case names.
 */
export function loginLines(mechanisms: readonly string[], { user, password }: Login): readonly string[] | null {
  if (mechanisms.includes('PLAIN')) return [`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`];
  if (mechanisms.includes('LOGIN')) return ['AUTH LOGIN', base64(user), base64(password)];
  return null;
}

const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');
