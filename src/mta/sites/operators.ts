/**
 * The large operators of mail hosts, by their MX hosts: a lane has the operator's name, and an operator may have its own limits.
 * The table is data (config/operators.yaml). A domain belongs to an operator only if all of its MX hosts do: otherwise a domain
 * could list one host of Google's and a tar-pit, and hold up all mail to Google. Pure.
 */

export interface MailOperator {
  readonly name: string;
  /** Host names, and all names below them. */
  readonly mx: readonly string[];
  /** Connections at most, in place of `delivery.lane.maxConcurrency`. */
  readonly maxConnections?: number | undefined;
  /** Mails over one connection at most. */
  readonly messagesPerConnection?: number | undefined;
}

/** Returns the operator of all of these hosts, or null. */
export function operatorOf(hosts: readonly string[], table: readonly MailOperator[]): MailOperator | null {
  if (hosts.length === 0) return null;
  const isOf = (host: string, { mx }: MailOperator): boolean =>
    mx.some((name) => host === name || host.endsWith(`.${name}`));
  const lower = hosts.map((host) => host.toLowerCase());
  return table.find((operator) => lower.every((host) => isOf(host, operator))) ?? null;
}
