import type { Scenario } from '../play.ts';
import { connections } from './connections.ts';
import { dns } from './dns.ts';
import { limits } from './limits.ts';
import { opinion } from './opinion.ts';
import { rates } from './rates.ts';
import { recipients } from './recipients.ts';
import { sessions } from './sessions.ts';
import { tenantScenarios } from './tenants.ts';

export const scenarios: readonly Scenario[] = [
  ...connections,
  ...recipients,
  ...tenantScenarios,
  ...opinion,
  ...limits,
  ...sessions,
  ...rates,
  ...dns,
];
