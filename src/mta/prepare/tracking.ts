/** The parts of a mail that differ for each recipient: tracked links, pixel, and the unsubscribe headers. Pure. */
import { trackingHostOf } from '../../domains/dns-records.ts';
import { LONGEST_UNSUBSCRIBE_URL, unsubscribeHeaders, unsubscribeUrlsIn } from '../../mail/list-unsubscribe.ts';
import { unsubscribeAddressFor, type ReturnPathKey } from '../../messages/delivery/return-path.ts';
import { storedUnsubscribe } from '../../messages/request/unsubscribe.ts';
import type { DeliveryRow, MessageRow } from '../../storage/tables.ts';
import type { TrackingKey } from '../../tracking/token.ts';
import { trackPaths, type Tracking } from '../../tracking/rewrite.ts';
import { unsubscribeToken } from '../../tracking/unsubscribe-link.ts';

type Row = Pick<DeliveryRow, 'id' | 'address'> &
  Pick<
    MessageRow,
    | 'account_id'
    | 'from_domain'
    | 'stream'
    | 'track_opens'
    | 'track_clicks'
    | 'tracking_url'
    | 'unsubscribe_json'
    | 'headers_json'
  >;

/** Returns null if nothing is tracked, as in nearly every mail: its content is the same for all recipients. */
export function trackingOf(key: TrackingKey, row: Row, unsubscribeUrl: string | null): Tracking | null {
  const base = row.tracking_url ?? '';
  const isTracked = (row.track_opens === 1 || row.track_clicks === 1) && base !== '';
  if (!isTracked && unsubscribeUrl === null) return null;
  return {
    key,
    stamp: { deliveryId: row.id, host: base === '' ? null : ownHost(base, row.from_domain) },
    base,
    opens: isTracked && row.track_opens === 1,
    clicks: isTracked && row.track_clicks === 1,
    unsubscribeUrl,
    untouched: unsubscribeUrls(row),
  };
}

/** Returns the tracking host if it belongs to the sending domain, else null. */
function ownHost(base: string, fromDomain: string): string | null {
  const { hostname } = new URL(base);
  return hostname === trackingHostOf(fromDomain) ? hostname : null;
}

/** The ways in which this recipient unsubscribes. */
export interface Unsubscribing {
  /** List-Unsubscribe and List-Unsubscribe-Post; empty if unsubscribing is off. */
  headers: string;
  /** The address for the link in the body; null if it has none. Recipients may have no page to open: then it is a mail. */
  bodyUrl: string | null;
}

export function unsubscribingOf(
  keys: { trackingKey: TrackingKey; returnPathKey: ReturnPathKey },
  row: Row,
  returnPathDomain: string,
): Unsubscribing {
  const unsubscribe = storedUnsubscribe(row);
  if (unsubscribe === null) return { headers: '', bodyUrl: null };
  const { url, mailto, oneClick, inBody = false } = unsubscribe;
  const token = url === null || mailto === null ? tokenOf(keys.trackingKey, row) : '';
  const hosted = hostedMailto(`${unsubscribeAddressFor(keys.returnPathKey, row.id)}@${returnPathDomain}`, token);
  const headers = unsubscribeHeaders({ url: url ?? hostedUrl(row, token), mailto: mailto ?? hosted, oneClick });
  const page = row.tracking_url === null ? null : `${row.tracking_url}${trackPaths.unsubscribe}${token}`;
  return { headers, bodyUrl: inBody ? (url ?? page ?? `mailto:${mailto ?? hosted}`) : null };
}

const tokenOf = (key: TrackingKey, row: Row): string =>
  unsubscribeToken(key, {
    deliveryId: row.id,
    accountId: row.account_id,
    stream: row.stream,
    fromDomain: row.from_domain,
    email: row.address,
  });

/** The subject (RFC 6068) tells whom the mail is from and what it ends, for as long as it is in a mailbox; the address only tells which mail it was. */
function hostedMailto(address: string, token: string): string {
  const whole = `${address}?subject=unsubscribe%20${token}`;
  return `mailto:${whole}`.length > LONGEST_UNSUBSCRIBE_URL ? address : whole;
}

/** Returns an https URL or null: the request must not be readable or changeable on its way (RFC 8058 section 3.1). */
function hostedUrl({ tracking_url: base }: Row, token: string): string | null {
  if (base?.startsWith('https://') !== true) return null;
  const url = `${base}${trackPaths.unsubscribe}${token}`;
  // The longest possible names make it too long; the mailto address remains.
  return url.length > LONGEST_UNSUBSCRIBE_URL ? null : url;
}

/** Returns the unsubscribe URLs that the sender gave, in a header or as a member of the request: clicks on them are not counted. */
function unsubscribeUrls(row: Row): string[] {
  const own = storedUnsubscribe(row)?.url ?? null;
  if (own !== null) return [own];
  const headers = JSON.parse(row.headers_json) as [string, string][];
  const [, list = ''] = headers.find(([name]) => name.toLowerCase() === 'list-unsubscribe') ?? [];
  return unsubscribeUrlsIn(list);
}
