/** The notice that a domain has lost a DNS record, and until when its mail is still sent. */
import { rfc3339 } from '../base/rfc3339.ts';
import type { Config } from '../config/schema.ts';
import { toDomainRecord, type DomainRecord, type DomainWithKeys } from '../domains/domain-record.ts';
import { capital, lostOf, lostText } from '../domains/lost-records.ts';
import type { DomainNotice } from '../housekeeping/domain-checks.ts';
import { dashboardUrl } from '../operator/team/admin.ts';
import { trackingTargetOf } from '../tracking/host.ts';
import type { AccountNotices, NoticeText } from './account-notice.ts';

export function domainNotice(notices: AccountNotices, config: Config): DomainNotice {
  return {
    prepare: () => notices.prepare(),
    of: (tx, domain) =>
      notices.of(tx, domain.row.account_id, lostRecordText(recordOf(domain, config), dashboardUrl(config))),
  };
}

const recordOf = (domain: DomainWithKeys, config: Config): DomainRecord =>
  toDomainRecord(domain, config.smtp.hostname, trackingTargetOf(config));

/** `2026-02-03 09:30 UTC`. */
const inWords = (at: string): string => `${at.slice(0, 16).replace('T', ' ')} UTC`;

function lostRecordText(
  { id, name, status, failing_since, refused_at, records }: DomainRecord,
  dashboard: string,
): NoticeText {
  const lost = lostOf(records);
  const at = inWords(refused_at ?? failing_since ?? rfc3339(0));
  const isRefused = status !== 'verified';
  return {
    subject: isRefused
      ? `${name} has lost a DNS record: its mail is refused`
      : `${name} has lost a DNS record: its mail is refused from ${at}`,
    lines: [
      `Posthorn looked for the DNS records of ${name}. ${capital(lostText(lost))}.`,
      '',
      isRefused
        ? `Mail from ${name} has been refused since ${at}, until the record is there again.`
        : `Mail from ${name} keeps going until ${at}. If the record is not there by then, mail is refused until it is.`,
      '',
      ...lost.map(({ cure }) => cure ?? ''),
      '',
      'DNS is asked again every 30 minutes. You can have it asked at once:',
      '',
      `  ${dashboard}/domains/${id}`,
      `  POST /v1/domains/${name}/verify`,
      '',
      'This is the only mail about it.',
    ],
  };
}
