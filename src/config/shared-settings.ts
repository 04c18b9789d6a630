/** The settings that all nodes of a database must have alike, as digests that nodes show each other in the database. */
import { createHmac } from 'node:crypto';
import type { Config } from './schema.ts';

/** Settings that decide a mail's fate, which must not depend on the node that took it. Addresses, ports and files of a machine are its own. */
const shared = ({ delivery, http, smtp, ...config }: Config): Readonly<Record<string, unknown>> => ({
  'delivery.lane': delivery.lane,
  'delivery.limits': delivery.limits,
  'delivery.maxAge': delivery.maxAge,
  'delivery.retry': delivery.retry,
  'delivery.routes': delivery.routes,
  'delivery.shaping': delivery.shaping,
  'delivery.smtputf8': delivery.smtputf8,
  'delivery.sources': delivery.sources,
  domains: config.domains,
  'http.publicUrl': http.publicUrl,
  idempotency: config.idempotency,
  limits: config.limits,
  plans: config.plans,
  retention: config.retention,
  simulator: config.simulator,
  'smtp.operatorAddress': smtp.operatorAddress,
  webhooks: config.webhooks,
});

/** Returns a digest of each shared setting. The key keeps readers of the database from guessing passwords of smarthosts. */
export const digestsOf = (config: Config, key: Buffer): Record<string, string> =>
  Object.fromEntries(
    Object.entries(shared(config)).map(([name, value]) => [
      name,
      createHmac('sha256', key).update(JSON.stringify(value)).digest('base64url').slice(0, 12),
    ]),
  );

/** Returns the names of settings whose digests in these texts of JSON differ. A setting that one version lacks is not compared. */
export function differingSettings(texts: readonly string[]): string[] {
  const all = texts.map(digestsIn);
  const names = new Set(all.flatMap((one) => Object.keys(one)));
  return [...names]
    .filter((name) => new Set(all.flatMap((one) => (name in one ? [one[name]] : []))).size > 1)
    .sort((a, b) => a.localeCompare(b));
}

function digestsIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const read = JSON.parse(text) as { settings?: unknown } | null;
    const settings = read?.settings;
    return typeof settings === 'object' && settings !== null ? (settings as Record<string, unknown>) : {};
  } catch {
    // Another version may write another form; then there is nothing to compare.
    return {};
  }
}
