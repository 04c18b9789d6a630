/** Applies changed settings on SIGHUP, and returns those that need a restart. */
import { readBounceRules } from '../config/data-file.ts';
import { certificateFiles, readCertificate, type CertificateWatch } from '../config/certificate.ts';
import { readLimitRules, rulesWith } from '../config/limit-rules.ts';
import { changesBetween, type Changes } from '../config/settings-state.ts';
import type { Config } from '../config/schema.ts';
import { createJudge } from '../messages/delivery/classify.ts';
import type { Mta } from '../mta/mta.ts';
import type { AppContext } from './context.ts';
import { nodeSelf } from './core.ts';

/** Throws ConfigError for a bad certificate or bad rules, and then changes nothing. */
export function reload(
  { live, log, nodes, keyring }: AppContext,
  { mta, certificateWatch }: { mta: Mta; certificateWatch: CertificateWatch },
  next: Config,
): Changes {
  const files = certificateFiles(next);
  if (files !== null) readCertificate(files);
  const rules = readBounceRules(next.delivery.bounceRules);
  const limitRules = readLimitRules();
  const changes = changesBetween(live.config, next);
  live.rules = rules;
  live.judge = createJudge(rules);
  if ('level' in log) log.level = next.log.level;
  const { routes, bounceRules, shaping } = next.delivery;
  mta.reroute(routes);
  if (changes.applied.includes('delivery.shaping')) mta.reshape(rulesWith(limitRules, shaping));
  // Settings that need a restart stay as they are, and are reported again by each reload until then.
  live.config = {
    ...live.config,
    plans: next.plans,
    log: { ...live.config.log, level: next.log.level },
    delivery: { ...live.config.delivery, routes, bounceRules, shaping },
    tls: next.tls,
  };
  nodes.describe(nodeSelf(live.config, keyring).facts);
  certificateWatch.look();
  log.info(
    { event: 'reloaded', ...changes },
    changes.needRestart.length === 0
      ? 'the settings were read again'
      : 'the settings were read again; some need a restart',
  );
  return changes;
}
