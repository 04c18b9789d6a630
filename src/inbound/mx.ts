/**
 * The MX listener: takes what can only be an answer to mail of ours, and says no at RCPT otherwise, so it is no relay and has
 * nothing to send back (RFC 5321 section 6.1). 250 means that the report is kept; what it says is found out afterwards (receive.ts).
 */
import type { Bell } from '../base/bell.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { parseMailbox } from '../mail/address.ts';
import type { ReturnPathKey } from '../messages/return-path.ts';
import type { Committer } from '../storage/commit.ts';
import { ownAddress } from './addresses.ts';
import type { Handlers } from './listener.ts';
import { refuse } from './smtp-refusal.ts';

export interface MxDeps {
  clock: Clock;
  db: { commit: Committer };
  bells: { reports: Bell };
  /** Those that sign return paths and unsubscribe addresses. */
  keys: readonly ReturnPathKey[];
  /** Whether mail for this host is ours: our own name, or a return-path domain. */
  isOurHost(host: string): Promise<boolean>;
  hasRoom(): boolean;
}

export function mxHandlers(deps: MxDeps): Handlers<never> {
  return {
    sender: () => Promise.resolve(null),
    async recipient(_session, address) {
      // RFC 5321 section 4.5.1: everybody has one, also without a domain.
      if (/^postmaster$/i.test(address)) return null;
      const at = address.lastIndexOf('@');
      // Percent hacks, bang paths and source routes are local parts of nobody here, and so refused with everybody else.
      const parsed = parseMailbox(address, { smtputf8: true });
      if (at <= 0 || parsed.kind === 'bad') return refuse(553, '5.1.3 this is no address');
      if (!(await deps.isOurHost(parsed.mailbox.domain))) return refuse(550, '5.7.1 we do not relay');
      return ownAddress(deps.keys, parsed.mailbox.local) === null
        ? refuse(550, '5.1.1 there is no such mailbox')
        : null;
    },
    async data(session, mail, size) {
      if (!deps.hasRoom()) return refuse(452, '4.3.1 there is no room now: try again later');
      const now = deps.clock.now();
      const id = newId('rep', now);
      const row = {
        id,
        received_at: now,
        client_ip: session.ip,
        sender: session.sender,
        recipients_json: JSON.stringify(session.recipients),
        size,
        state: 'new',
        kind: null,
        account_id: null,
        message_id: null,
        delivery_id: null,
        detail_json: '{}',
        raw: mail,
      } as const;
      await deps.db.commit.insert({ reports: [row] }, mail.length + 1000);
      deps.bells.reports.ring();
      return `2.0.0 taken as ${id}`;
    },
  };
}
