/**
 * Bodies of our own mails that carry a link to a login, such as invitations. They are stored under `secret.key`, so that a copy of the
 * database opens no login, and removed with the outcome that ends the delivery. The content's id says that it is sealed.
 */
import type { Keyring } from '../../base/keyring.ts';
import type { Connection } from '../../storage/connection.ts';
import { statement } from '../../storage/sql.ts';

const PREFIX = 'sec_';
const idFor = (messageId: string): string => PREFIX + messageId.slice(PREFIX.length);
const purposeOf = (id: string): string => `content ${id}`;

export function sealContent(keyring: Pick<Keyring, 'seal'>, messageId: string, text: string) {
  const id = idFor(messageId);
  return { id, text: keyring.seal(purposeOf(id), text) };
}

export const isSealedContent = (id: string): boolean => id.startsWith(PREFIX);

/** Throws if its key is lost. */
export const openContent = (keyring: Pick<Keyring, 'open'>, id: string, sealed: string): string =>
  keyring.open(purposeOf(id), sealed).toString();

export async function removeSealedContents(tx: Connection, messageIds: readonly string[]): Promise<void> {
  const ids = JSON.stringify(messageIds.map(idFor));
  await tx.run(
    statement(({ among }) => `DELETE FROM contents WHERE id ${among('text')}`),
    [ids],
  );
}
