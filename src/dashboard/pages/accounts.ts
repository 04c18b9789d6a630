/** The accounts, for administrators. */
import type { DashboardDeps } from '../deps.ts';
import type { Page } from '../page.ts';
import { resource } from '../resource.ts';

export const accountPages = (deps: DashboardDeps): Page[] =>
  resource(deps, {
    path: '/accounts',
    view: 'accounts',
    title: 'Accounts',
    who: 'admin',
    async load(visit) {
      const { data } = await visit.ask('accounts.list');
      const rows = data.map((row) => ({ ...row, isThis: row.id === visit.account.id }));
      return { rows, plans: Object.keys(deps.config.plans) };
    },
  });
