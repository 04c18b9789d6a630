/**
 * What changes in a message's life and lists ask for - its status, whether it was opened, whether clicked - as one number, so that a
 * block keeps it at a byte a message. Pure.
 */
import { deliveryStatuses, type DeliveryStatus } from '../../storage/tables.ts';

/** One more than the highest code. 0 stands for a message that is gone. */
const CODES = (deliveryStatuses.length + 1) * 4;

/** The code of the message `alias`, in SQL. `migrations/026-summaries.ts` has its words, too. */
export const codeSql = (alias: string): string =>
  `(CASE ${alias}.status ${deliveryStatuses.map((status, at) => `WHEN '${status}' THEN ${String(at + 1)}`).join(' ')} ELSE 0 END)
   * 4 + (${alias}.opens > 0) * 2 + (${alias}.clicks > 0)`;

/** What is asked for. */
export interface StateWish {
  status?: readonly DeliveryStatus[];
  opened?: boolean;
  clicked?: boolean;
}

/** How many of the three are asked for. */
export const wishesIn = ({ status, opened, clicked }: StateWish): number =>
  [status, opened, clicked].filter((one) => one !== undefined).length;

/** The codes that fit. */
export function codesOf({ status, opened, clicked }: StateWish): number[] {
  const statuses = new Set((status ?? deliveryStatuses).map((one) => deliveryStatuses.indexOf(one) + 1));
  return Array.from({ length: CODES }, (_, code) => code).filter(
    (code) =>
      statuses.has(code >> 2) &&
      (opened === undefined || opened === (code & 2) > 0) &&
      (clicked === undefined || clicked === (code & 1) > 0),
  );
}
