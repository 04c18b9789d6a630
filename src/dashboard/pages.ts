/** All pages of the dashboard. */
import type { Page } from './page.ts';
import { apiPages } from './pages/api.ts';
import { doctorPages } from './pages/doctor.ts';
import { domainPages } from './pages/domains.ts';
import { eventPages } from './pages/events.ts';
import { exportPages } from './pages/exports.ts';
import { keyPages } from './pages/keys.ts';
import { messagePages } from './pages/messages.ts';
import { overviewPages } from './pages/overview.ts';
import { profilePages } from './pages/profile.ts';
import { queuePages } from './pages/queue.ts';
import { receivedPages } from './pages/received.ts';
import { reputationPages } from './pages/reputation.ts';
import { requestLogPages } from './pages/request-log.ts';
import { searchPages } from './pages/search.ts';
import { setUpPages } from './pages/set-up.ts';
import { settingsPages } from './pages/settings.ts';
import { signInPages } from './pages/sign-in.ts';
import { statsPages } from './pages/stats.ts';
import { suppressionPages } from './pages/suppressions.ts';
import { teamPages } from './pages/team.ts';
import { templatePages } from './pages/templates.ts';
import { watchPages } from './pages/watch.ts';
import { webhookPages } from './pages/webhooks.ts';

export const pages: readonly Page[] = [
  ...[setUpPages, signInPages, profilePages, overviewPages, searchPages],
  // Before those of messages, whose paths have an id in this place.
  ...[receivedPages, messagePages, eventPages, exportPages],
  ...[statsPages, reputationPages, templatePages, suppressionPages],
  ...[domainPages, webhookPages, keyPages, requestLogPages, apiPages],
  ...[settingsPages, teamPages, queuePages, watchPages, doctorPages],
].flat();
