/** Words that a guesser of passwords would try first: the login and the names of this host. Pure. */
import type { Config } from '../config/schema.ts';

export function passwordContext({ http, smtp }: Pick<Config, 'http' | 'smtp'>, email: string): string[] {
  return [email, new URL(http.publicUrl).hostname, smtp.hostname];
}
