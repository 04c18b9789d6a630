/** Saved views: a page offers those of its account, and saves what its address filters by. */
import { Problem } from '../../base/problem.ts';
import { viewPages } from '../../operator/saved-views.ts';
import { linkTo } from '../links.ts';
import { move, needs, post, type Page, type Shown, type Visit } from '../page.ts';

type ViewPage = (typeof viewPages)[number];

const isViewPage = (path: string): path is ViewPage => (viewPages as readonly string[]).includes(path);

export function savedViewPages(): Page[] {
  return [
    needs('send', post('/views', save)),
    needs(
      'send',
      post('/views/:id/remove', async (visit) => {
        const { page } = await visit.operate('views.remove', {
          account: visit.account.id,
          id: visit.params['id'] ?? '',
        });
        return move(page, 'The view is removed.');
      }),
    ),
  ];
}

async function save(visit: Visit): Promise<Shown> {
  const { form, account } = visit;
  const page = form.get('page') ?? '';
  if (!isViewPage(page)) throw new Problem('invalid_field', 'This page has no views.', { field: 'page' });
  const query = form.get('query') ?? '';
  const { name } = await visit.operate('views.save', {
    account: account.id,
    page,
    name: form.get('name') ?? '',
    query,
  });
  return move(query === '' ? page : `${page}?${query}`, `The view “${name}” is saved, for all who see this account.`);
}

export interface SavedViews {
  page: string;
  /** The filters of the address; '' where there is nothing to save. */
  query: string;
  views: { id: string; name: string; href: string; on: boolean; by: string; canRemove: boolean }[];
}

/** Returns the views of a page, with the one that is shown marked. */
export async function savedViewsOf(visit: Visit, page: ViewPage): Promise<SavedViews> {
  const { data } = await visit.operate('views.list', { account: visit.account.id, page });
  const shown = linkTo(page, visit.query).slice(page.length + 1);
  return {
    page,
    query: shown,
    views: data.map(({ id, name, query, created_by: by }) => ({
      id,
      name,
      href: query === '' ? page : `${page}?${query}`,
      on: query === shown,
      by: by.replace(/^member:/, ''),
      canRemove: visit.may('send') && (visit.isAdmin || by === visit.actor),
    })),
  };
}
