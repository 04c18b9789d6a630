/** Operations on sending domains. */
import { z } from 'zod';
import { toDomainRecord, type DomainRecord, type DomainWithKeys } from '../domains/domain-record.ts';
import { notesOn } from '../domains/lost-records.ts';
import { rotateDkim } from '../domains/dkim-rotation.ts';
import { addDomain, findDomain, listDomains } from '../domains/domain-store.ts';
import { verifyDomain } from '../domains/verify.ts';
import { trackingTargetOf } from '../tracking/host.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onStore, type StoreDeps } from './operation.ts';

const MOST_LISTED = 1000;
const nameArgument = z.string().min(1).max(300);

export const domainOperations = {
  /** The record holds the DNS records to publish. */
  'domains.add': onStore({
    acts: true,
    args: z.strictObject({
      name: nameArgument,
      trusted: z.boolean().optional(),
      return_path: nameArgument.optional(),
      account: accountArgument,
    }),
    async run(deps, { name, trusted = false, return_path: returnPath, account }, act) {
      const { id: accountId } = await accountNamed(deps, account);
      act.concerns(accountId);
      const wish = { accountId, name, trusted, ...(returnPath === undefined ? {} : { returnPath }) };
      return recordOf(deps, await addDomain(telling(deps), wish));
    },
  }),
  'domains.show': onStore({
    acts: false,
    args: z.strictObject({ name: nameArgument }),
    async run(deps, { name }) {
      const domain = await findDomain(deps, { accountId: null, nameOrId: name });
      return recordOf(deps, domain);
    },
  }),
  /** Asks DNS now. */
  'domains.verify': onStore({
    acts: true,
    args: z.strictObject({ name: nameArgument }),
    async run(deps, { name }, act) {
      const { smtp, domains } = deps.config;
      const domain = await verifyDomain(
        {
          ...telling(deps),
          hostname: smtp.hostname,
          trackingTarget: trackingTargetOf(deps.config),
          graceMs: domains.grace,
        },
        { accountId: null, nameOrId: name },
      );
      act.concerns(domain.row.account_id);
      return recordOf(deps, domain);
    },
  }),
  /** The new keys sign once DNS shows them; with `at_once` they sign now. */
  'domains.rotate': onStore({
    acts: true,
    args: z.strictObject({ name: nameArgument, at_once: z.boolean().optional() }),
    async run(deps, { name, at_once: atOnce = false }, act) {
      const domain = await rotateDkim(telling(deps), { accountId: null, nameOrId: name }, { atOnce });
      act.concerns(domain.row.account_id);
      return recordOf(deps, domain);
    },
  }),
  /** Whatever their status. */
  'domains.list': onStore({
    acts: false,
    args: z.strictObject({ account: accountArgument }),
    async run(deps, { account }) {
      const { id: accountId } = await accountNamed(deps, account);
      const domains = await listDomains(deps, { accountId, limit: MOST_LISTED });
      return { data: domains.map((domain) => recordOf(deps, domain)) };
    },
  }),
};

/** A domain as the API shows it, with what there is to say of it in whole sentences. */
interface DomainWithNotes extends DomainRecord {
  notes: string[];
}

function recordOf({ config, clock }: StoreDeps, domain: DomainWithKeys): DomainWithNotes {
  const record = toDomainRecord(domain, config.smtp.hostname, trackingTargetOf(config));
  return { ...record, notes: notesOn(record, clock.now()) };
}

function telling(deps: StoreDeps): StoreDeps & { changed: (name: string) => void } {
  return {
    ...deps,
    changed: (name) => {
      deps.forgetDomain(name);
    },
  };
}
