/** Operations on mail that comes back: the self-test, reports without proof, and confirming such a report by hand. */
import { z } from 'zod';
import { each, flag, many, maybe, maybeTime, ofKind, text, time, whole } from '../../api/record-schema.ts';
import { notFound } from '../../base/problem.ts';
import type { DeliveryChange, FeedbackSource } from '../../messages/delivery/delivery.ts';
import type { FindingRecord } from '../../inbound/finding.ts';
import { createMailViewer } from '../../messages/store/mail-viewer.ts';
import { bouncedBy, complainedBy } from '../../messages/delivery/reported.ts';
import type { DeliveryRow, ReportRow } from '../../storage/tables.ts';
import { serverRoute, storeRoute } from '../server-route.ts';

const MailView = z.object({
  ...each(text(), 'subject', 'from', 'to', 'cc'),
  date: maybeTime(),
  ...each(maybe(), 'text', 'html'),
  attachments: z.array(
    z.object({
      ...each(text(), 'filename', 'content_type'),
      content_id: maybe(),
      disposition: z.enum(['attachment', 'inline']),
      size: whole(),
    }),
  ),
});

const Shown = ofKind('shown_report', {
  id: text(),
  view: MailView.nullable().describe('Null if it cannot be parsed: then `source` is the beginning of its source.'),
  source: maybe(),
});
export type ShownReport = z.infer<typeof Shown>;

const Unproven = ofKind('unverified_report', {
  ...each(text(), 'id', 'kind', 'account_id', 'message_id', 'recipient'),
  received_at: time(),
  ...each(maybe(), 'ip', 'sender'),
});

type Unverified = Pick<
  ReportRow,
  'id' | 'kind' | 'received_at' | 'client_ip' | 'sender' | 'account_id' | 'message_id'
> &
  Pick<DeliveryRow, 'address'>;

const MOST = 1000;
const SHOWN_BYTES = 100_000;
/** Base64 of what the listener takes. */
const MOST_MAIL = 48 * 1024 * 1024;

export const inboundOperations = {
  /** Sends a bounce to ourselves. Takes half a minute at most, and changes no statistics. */
  'inbound.selfTest': serverRoute({
    answer: ofKind('self_test', { ok: flag(), why: maybe(), ms: whole() }),
    async run(deps) {
      return { object: 'self_test' as const, ...(await deps.selfTest()) };
    },
  }),
  /** Hands a mail to the MX listener as if it came from outside: what follows is what follows then. */
  'inbound.simulate': serverRoute({
    answer: ofKind('handed_in', { ...each(text(), 'to', 'reply'), taken: flag(), received_id: maybe() }),
    body: z.strictObject({
      to: z.string().max(320),
      from: z.string().max(320),
      /** In base64. */
      mail: z.string().max(MOST_MAIL),
    }),
    act: { says: 'handed in a mail to {to}', type: 'received_message', named: 'to', keeps: ['taken', 'reply'] },
    async run(deps, { to, from, mail }) {
      const handed = await deps.handIn({ from, to, mail: Buffer.from(mail, 'base64') });
      const [id = null] = /rcv_[0-9a-z]{26}/.exec(handed.reply) ?? [];
      return { object: 'handed_in' as const, to, ...handed, received_id: id };
    },
  }),
  /** Returns the newest first. */
  'inbound.unverified': storeRoute({
    answer: z.object({ data: many(Unproven), has_more: flag() }),
    body: z.strictObject({ limit: z.int().min(1).max(MOST).optional() }),
    async run({ db }, { limit = 100 }) {
      const rows = await db.prepared.all<Unverified>(
        `SELECT r.id, r.kind, r.received_at, r.client_ip, r.sender, r.account_id, r.message_id, d.address
         FROM reports r JOIN deliveries d ON d.id = r.delivery_id WHERE r.state = 'unverified' AND (r.delivery_id IS NULL OR r.state = 'unverified')
         ORDER BY r.id DESC LIMIT ?`,
        [limit + 1],
      );
      return { data: rows.slice(0, limit).map(unverifiedRecord), has_more: rows.length > limit };
    },
  }),
  /** Returns a report as a mail program shows it, so that a person can judge whether to believe it. */
  'inbound.show': storeRoute({
    answer: Shown,
    body: z.strictObject({ id: z.string().max(100) }),
    async run({ db, clock }, { id }) {
      const [row] = await db.prepared.all<Pick<ReportRow, 'raw'>>('SELECT raw FROM reports WHERE id = ?', [id]);
      if (row === undefined) throw notFound('id', 'There is no report with this id.');
      const viewer = createMailViewer({ clock });
      try {
        const view = await viewer.view(row.raw);
        const source = view === null ? row.raw.toString('latin1', 0, SHOWN_BYTES) : null;
        return { object: 'shown_report' as const, id, view, source };
      } finally {
        await viewer.close();
      }
    },
  }),
  /** Changes the delivery's status, the suppression list and the events as if the report had proof. */
  'inbound.confirm': serverRoute({
    answer: ofKind('confirmed_report', each(text(), 'id', 'delivery_id')),
    act: { says: 'confirmed the report {object}', type: 'report' },
    body: z.strictObject({ id: z.string().max(100) }),
    async run({ db, recorder }, { id }, act) {
      const [row] = await db.prepared.all<
        Pick<ReportRow, 'kind' | 'account_id' | 'delivery_id' | 'detail_json'> & Pick<DeliveryRow, 'address_key'>
      >(
        `SELECT r.kind, r.account_id, r.delivery_id, r.detail_json, d.address_key
         FROM reports r JOIN deliveries d ON d.id = r.delivery_id WHERE r.id = ? AND r.state = 'unverified'`,
        [id],
      );
      const change = row === undefined ? null : changeOf(row);
      if (row?.delivery_id == null || change === null)
        throw notFound('id', 'There is no unverified report with this id.');
      act.concerns(row.account_id ?? '');
      act.on({ object: id });
      await recorder.record([{ deliveryId: row.delivery_id, change }]);
      await db.commit.transact((tx) => tx.run("UPDATE reports SET state = 'done' WHERE id = ?", [id]));
      return { object: 'confirmed_report' as const, id, delivery_id: row.delivery_id };
    },
  }),
};

const unverifiedRecord = (row: Unverified) => ({
  object: 'unverified_report' as const,
  id: row.id,
  kind: row.kind ?? '',
  received_at: new Date(row.received_at).toISOString(),
  ip: row.client_ip,
  sender: row.sender,
  account_id: row.account_id ?? '',
  message_id: row.message_id ?? '',
  recipient: row.address,
});

/** The detail of a report (`reports.detail_json`). */
interface ReportDetail {
  feedback_type?: string | null;
  feedback_source?: FeedbackSource | null;
  /** True for a delivery report (RFC 3464). */
  well_formed?: boolean;
  recipients?: FindingRecord['recipients'];
}

/** Returns the change that the report asks for; null if it says that the delivery did not fail. */
function changeOf({
  kind,
  detail_json: json,
  address_key: key,
}: Pick<ReportRow, 'kind' | 'detail_json'> & Pick<DeliveryRow, 'address_key'>): DeliveryChange | null {
  const {
    feedback_type: type,
    feedback_source: source,
    well_formed: isWellFormed,
    recipients = [],
  } = JSON.parse(json) as ReportDetail;
  if (kind === 'complaint')
    return complainedBy({ type: type ?? null, source: source ?? 'arf', userAgent: null, arrivalDate: null });
  if (kind !== 'bounce') return null;
  const reported = recipients.map((one) => ({
    ...one,
    code: null,
    verdict: one.class === null || one.reason === null ? null : { class: one.class, reason: one.reason },
  }));
  return bouncedBy(reported, key, isWellFormed === false ? 'notice' : 'report');
}
