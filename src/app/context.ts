/** The context of the program: what all its parts are built from. */
import type { Keyring } from '../base/keyring.ts';
import type { ChangeNotices } from '../api/context.ts';
import type { Config } from '../config/schema.ts';
import type { ReturnPathKey } from '../messages/delivery/return-path.ts';
import { createChanges } from './changes.ts';
import { openCore, type Core, type Overrides } from './core.ts';
import { openStores, type Stores } from './stores.ts';

export type AppContext = Core & Stores & { changes: ChangeNotices };

/** Opens the database and all that reads from it. */
export async function openAppContext(config: Config, overrides: Overrides): Promise<AppContext> {
  const core = await openCore(config, overrides);
  const stores = await openStores(core);
  return { ...core, ...stores, changes: createChanges(core, stores) };
}

/** Returns the key with which return paths are signed now. */
export const signingKey = (keyring: Keyring): ReturnPathKey => ({
  id: keyring.keyIds.length % 32,
  secret: keyring.derive('return path'),
});
