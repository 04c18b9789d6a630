/** What everybody knows who would guess a password: the address that signs in and the names of this host. Pure. */
import type { Config } from '../config/schema.ts';

export function passwordContext({ http, smtp }: Pick<Config, 'http' | 'smtp'>, email: string): string[] {
  return [email, new URL(http.publicUrl).hostname, smtp.hostname];
}
