/** The mail that tells people that a webhook endpoint of theirs is not called any more. It is committed with the end of the endpoint. */
import { rfc3339 } from '../base/rfc3339.ts';
import type { Config } from '../config/schema.ts';
import { dashboardUrl } from '../operator/admin.ts';
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
  // What stands behind the path, or before the host, may be a secret.
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
      'No event is lost: they stay readable by GET /v1/events for as long as events are kept. When the endpoint is well again,',
      'enable it, and it is told what it missed:',
      '',
      `  ${dashboard}/webhooks/${row.id}`,
      `  PATCH /v1/webhooks/${row.id} with {"enabled": true}`,
    ],
  };
}
