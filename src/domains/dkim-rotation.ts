/** Changes the DKIM keys of a domain: makes new ones, lets them sign, removes retired ones. */
import type { Keyring } from '../base/keyring.ts';
import { Problem } from '../base/problem.ts';
import type { Connection } from '../storage/connection.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import type { DkimKeyRow, DomainRow } from '../storage/tables.ts';
import { statement } from '../storage/sql.ts';
import { makeDkimKeys, promote, RETIRING_MS } from './dkim-key.ts';
import type { DomainWithKeys } from './domain-record.ts';
import { findDomain, noSuchDomain, type DomainDeps, type DomainRef } from './domain-store.ts';

/**
 * Makes the next pair of DKIM keys, pending until DNS shows them; `atOnce` lets them sign now, without DNS. Throws `not_found`, and `invalid_state`
 * while the last pair waits for its records (not with `atOnce`) or if the keys change meanwhile.
 */
export async function rotateDkim(
  deps: DomainDeps & { keyring: Keyring },
  ref: DomainRef,
  {
    atOnce = false,
    alsoInTransaction = noRows,
  }: { atOnce?: boolean; alsoInTransaction?: RowsFor<DomainWithKeys> } = {},
): Promise<DomainWithKeys> {
  const { row, keys } = await findDomain(deps, ref);
  // Ed25519 records are not required, so such a key may stay pending. With `atOnce` no record is waited for.
  if (!atOnce && keys.some(({ algorithm, state }) => algorithm === 'rsa-sha256' && state === 'pending')) {
    throw new Problem(
      'invalid_state',
      'The key of the last rotation still waits for its DNS record. Publish that first.',
    );
  }
  const now = deps.clock.now();
  const taken = keys.map(({ selector }) => selector);
  const fresh = await makeDkimKeys(deps, { domainId: row.id, now, state: 'pending', taken });
  const rotated = await deps.db.commit.transact(async (tx) => {
    // Making the keys took a while: the domain may have been deleted.
    const [current] = await tx.all<DomainRow>('SELECT * FROM domains WHERE id = ?', [row.id]);
    if (current === undefined) throw noSuchDomain();
    // Another rotation may have been faster: its keys would have the same selectors.
    const there = await tx.all<Pick<DkimKeyRow, 'id' | 'state'>>(
      'SELECT id, state FROM dkim_keys WHERE domain_id = ? ORDER BY id',
      [row.id],
    );
    const nameOf = ({ id, state }: Pick<DkimKeyRow, 'id' | 'state'>): string => `${id} ${state}`;
    if (there.map(nameOf).join() !== keys.map(nameOf).join())
      throw new Problem(
        'invalid_state',
        'The keys of the domain have just changed. See whether it still needs new ones.',
      );
    // A pending key never signed anything, so its record is not needed.
    await tx.run(`DELETE FROM dkim_keys WHERE domain_id = ? AND state = 'pending'`, [row.id]);
    const staying = keys.filter(({ state }) => state !== 'pending');
    const all = [...staying, ...fresh];
    await insertRows(tx, [{ dkim_keys: fresh }]);
    const seen = new Set(atOnce ? fresh.map(({ id }) => id) : []);
    const after = { row: current, keys: await activateKeys(tx, all, { seen, now }) };
    await insertRows(tx, [alsoInTransaction(after)]);
    return after;
  });
  deps.changed?.(row.name);
  return rotated;
}

/** Removes keys that have been retiring for long enough; returns their number. */
export async function removeRetiredKeys({ db, clock }: Pick<DomainDeps, 'db' | 'clock'>): Promise<number> {
  const removed = await db.commit.transact((tx) =>
    tx.all(`DELETE FROM dkim_keys WHERE state = 'retiring' AND retired_at <= ? RETURNING id`, [
      clock.now() - RETIRING_MS,
    ]),
  );
  return removed.length;
}

/** Lets the pending keys in `seen` (ids) sign and retires older ones. Returns all keys afterwards. */
export async function activateKeys(
  tx: Connection,
  keys: readonly DkimKeyRow[],
  { seen, now }: { seen: ReadonlySet<string>; now: number },
): Promise<DkimKeyRow[]> {
  const { activate, retire } = promote(keys, seen);
  if (activate.length === 0) return [...keys];
  const ids = (list: readonly DkimKeyRow[]): string => JSON.stringify(list.map(({ id }) => id));
  await tx.run(
    statement(
      ({ among }) =>
        `UPDATE dkim_keys SET state = 'active', active_at = ? WHERE id ${among('text')} AND state = 'pending'`,
    ),
    [now, ids(activate)],
  );
  await tx.run(
    statement(
      ({ among }) =>
        `UPDATE dkim_keys SET state = 'retiring', retired_at = ? WHERE id ${among('text')} AND state <> 'retiring'`,
    ),
    [now, ids(retire)],
  );
  return tx.all<DkimKeyRow>(
    statement(({ among }) => `SELECT * FROM dkim_keys WHERE id ${among('text')} ORDER BY id`),
    [ids(keys)],
  );
}
