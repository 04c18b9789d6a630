/** All pages of the dashboard. */
import type { DashboardDeps } from './deps.ts';
import type { Page } from './page.ts';
import { keyPages } from './pages/keys.ts';
import { overviewPages } from './pages/overview.ts';
import { profilePages } from './pages/profile.ts';
import { requestLogPages } from './pages/request-log.ts';
import { setUpPages } from './pages/set-up.ts';
import { signInPages } from './pages/sign-in.ts';

export function pagesOf(deps: DashboardDeps): Page[] {
  return [
    ...setUpPages(deps),
    ...signInPages(deps),
    ...overviewPages(deps),
    ...keyPages(deps),
    ...requestLogPages(),
    ...profilePages(deps),
  ];
}
