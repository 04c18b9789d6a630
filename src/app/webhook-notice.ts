/** The notice that a webhook endpoint was disabled. It is committed together with that change. */
import { rfc3339 } from '../base/rfc3339.ts';
import type { Config } from '../config/schema.ts';
import { dashboardUrl } from '../operator/team/admin.ts';
import type { WebhookRow } from '../storage/tables.ts';
import type { DisabledNotice } from '../webhooks/dispatcher.ts';
import type { AccountNotices, NoticeText } from './account-notice.ts';

export function disabledNotice(notices: AccountNotices, config: Pick<Config, 'http' | 'dashboard'>): DisabledNotice {
  return {
    prepare: () => notices.prepare(),
    of: (tx, row) => notices.of(tx, row.account_id, disabledText(row, dashboardUrl(config))),
  };
}

function disabledText(
  row: Pick<WebhookRow, 'id' | 'url' | 'disabled_reason' | 'updated_at'>,
  dashboard: string,
): NoticeText {
  // The query and the user name of a URL may be secrets.
  const { origin, host, pathname } = new URL(row.url);
  return {
    subject: `The webhook to ${host} was disabled`,
    lines: [
      `On ${rfc3339(row.updated_at)} Posthorn stopped calling this endpoint:`,
      '',
      `  ${origin}${pathname}`,
      `  ${row.id}`,
      '',
      row.disabled_reason ?? '',
      '',
      'No event is lost: they stay readable by GET /v1/events for as long as events are kept. When the endpoint works again,',
      'enable it, and it gets the events that it missed:',
      '',
      `  ${dashboard}/webhooks/${row.id}`,
      `  PATCH /v1/webhooks/${row.id} with {"enabled": true}`,
    ],
  };
}
