/** Writes a call as a command, so that people can read it and repeat it by hand. Pure. */
import { callHeaders } from './call.ts';
import type { WebhookDeliveryRow } from '../storage/tables.ts';

/** Writes the command. A received mail has no text in it, which the signature covers, so it comes without one. Values of custom headers are secrets of the customer, and are shown as `<hidden>`. */
export function curlOf(
  line: WebhookDeliveryRow,
  call: { url: string; headerNames: readonly string[]; body: string },
): string {
  const isWithoutText = line.event_type === 'received' && line.sample === null;
  const own = callHeaders(
    {
      'webhook-id': line.event_id,
      'webhook-timestamp': String(Math.floor(line.at / 1000)),
      'webhook-signature': line.signature,
    },
    line.attempt,
    call.body,
  );
  const headers = [
    ...call.headerNames.map((name) => `${name}: <hidden>`),
    ...Object.entries(own)
      .filter(([name]) => name !== 'Content-Length' && !(isWithoutText && name === 'webhook-signature'))
      .map((pair) => pair.join(': ')),
  ];
  return [
    `curl ${quoted(call.url)}`,
    ...headers.map((header) => `-H ${quoted(header)}`),
    `--data-raw ${quoted(call.body)}`,
  ].join(' \\\n  ');
}

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
