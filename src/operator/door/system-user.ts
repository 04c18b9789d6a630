/** The person at the command line, for the audit. */
import { userInfo } from 'node:os';

const NAME = /^[\w.@-]{1,64}$/;

/** Returns the name of the system user, with the one who became it by sudo: `root (sudo by lea)`; '' if the system does not tell. */
export function systemUser(env: Readonly<Record<string, string | undefined>>): string {
  const { SUDO_USER: by = '' } = env;
  const name = nameOrEmpty();
  if (!NAME.test(name)) return '';
  return NAME.test(by) && by !== name ? `${name} (sudo by ${by})` : name;
}

/** A user id without an entry in the user database has no name. */
function nameOrEmpty(): string {
  try {
    return userInfo().username;
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

/** Returns the user agent of the audit for the user that a command names. Only who may open the socket can name one. */
export function agentOf(user: string | undefined): string | null {
  return user !== undefined && /^[\w.@-]{1,64}(?: \(sudo by [\w.@-]{1,64}\))?$/.test(user) ? `cli:${user}` : null;
}
