/** All pages of the dashboard. */
import type { Assets } from './assets.ts';
import type { DashboardDeps } from './deps.ts';
import type { Page } from './page.ts';
import { accountPages } from './pages/accounts.ts';
import { apiPages } from './pages/api.ts';
import { doctorPages } from './pages/doctor.ts';
import { domainPages } from './pages/domains.ts';
import { eventPages } from './pages/events.ts';
import { exportPages } from './pages/exports.ts';
import { keyPages } from './pages/keys.ts';
import { messagePages } from './pages/messages.ts';
import { nodePages } from './pages/nodes.ts';
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
import { sharedPages } from './pages/shared.ts';
import { sourcePages } from './pages/sources.ts';
import { statsPages } from './pages/stats.ts';
import { streamPages } from './pages/streams.ts';
import { suppressionPages } from './pages/suppressions.ts';
import { teamPages } from './pages/team.ts';
import { templatePages } from './pages/templates.ts';
import { watchPages } from './pages/watch.ts';
import { webhookPages } from './pages/webhooks.ts';

export function pagesOf(deps: DashboardDeps, assets: Assets): Page[] {
  return [
    ...setUpPages(deps),
    ...signInPages(deps),
    ...overviewPages(),
    // Before those of messages, whose paths have an id in this place.
    ...receivedPages(),
    ...messagePages(),
    ...sharedPages(deps),
    ...eventPages(),
    ...exportPages(),
    ...statsPages(),
    ...reputationPages(),
    ...templatePages(deps),
    ...suppressionPages(deps),
    ...domainPages(deps),
    ...streamPages(deps),
    ...webhookPages(deps),
    ...keyPages(deps),
    ...searchPages(),
    ...requestLogPages(deps),
    ...apiPages({ ...deps, routes: deps.routes.filter(({ scope }) => scope !== 'server') }, assets),
    ...settingsPages(deps),
    ...sourcePages(deps),
    ...nodePages(deps),
    ...profilePages(deps),
    ...queuePages(deps),
    ...watchPages(),
    ...doctorPages(),
    ...teamPages(deps),
    ...accountPages(deps),
  ];
}
