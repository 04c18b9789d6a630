/** Rows of the table `limits`, for tests. */
import { anyPart } from '../../../src/operator/selector.ts';
import { newLimit, type Limit } from '../../../src/messages/limits/limit.ts';
import type { LimitRow } from '../../../src/storage/tables.ts';

/** Returns the row of a source that a site has on a list. */
export function limitRow(own: Partial<LimitRow>): LimitRow {
  const row = {
    kind: 'block_list',
    site: 'mx.dest.test',
    source: '',
    domain: null,
    account: null,
    set_by: 'receiver',
    connections: null,
    ceiling: null,
    per_minute: null,
    known_per_minute: null,
    per_hour: null,
    per_day: null,
    until: 0,
    step: 0,
    since: 0,
    changed_at: 0,
    refused_at: 0,
    cause: '',
    stream: null,
    message_id: null,
    batch_id: null,
    key_id: null,
    actor: null,
    catches_new: 1,
    ended: 0,
    ...own,
  } as const;
  return { id: `${row.kind} ${row.site} ${row.source} ${row.domain ?? '*'} ${row.account ?? '*'}`, ...row };
}

/** Returns a hold or limit that a person has set. */
export const byHand = (own: Partial<Limit>, now: number): Limit => ({
  ...newLimit('hold', anyPart, now),
  id: 'hld_1',
  by: 'operator',
  step: 0,
  actor: 'operator',
  evidence: null,
  ...own,
});
