/** Links to one message for a person without a login: making one, and the page that it opens. */
import { findAccount } from '../../accounts/account-store.ts';
import { contentOf, memberCaller, type Asking } from '../../api/inside.ts';
import { Problem } from '../../base/problem.ts';
import { actRows } from '../act.ts';
import type { DashboardDeps } from '../deps.ts';
import { get, move, needs, openGet, post, view, type Guest, type Page, type Shown, type Visit } from '../page.ts';
import { readShareToken, SHARED_HOURS, shareToken } from '../share-link.ts';
import { messageData, type Reader } from './messages.ts';

type Deps = Pick<DashboardDeps, 'db' | 'clock' | 'keyring' | 'config' | 'inside'>;

export const sharedPages = (deps: Deps): Page[] => [
  needs(
    'message:content',
    post('/messages/:id/share', (visit) => share(deps, visit)),
  ),
  get('/messages/:id/share', (visit) => showLink(deps, visit)),
  openGet('/shared/:token', (guest) => shared(deps, guest)),
];

async function share(deps: Deps, visit: Visit): Promise<Shown> {
  const { id } = await visit.ask('getMessage', { params: visit.params });
  const { account, member, ip, userAgent, now } = visit;
  const token = shareToken(deps.keyring, { messageId: id, accountId: account.id }, now);
  const actor = { email: member.email, ip, userAgent };
  await deps.db.commit.insert(actRows(deps, actor, 'message.share', account.id, { object: id }));
  return move(`/messages/${id}/share?token=${token}`);
}

/** Shows a link that was just made; a reload makes no other one. */
function showLink({ config, keyring }: Deps, { params, query, now }: Visit): Shown {
  const token = query.get('token') ?? '';
  const message = `/messages/${params['id'] ?? ''}`;
  if (readShareToken(keyring, token, now) === null) return move(message);
  const link = `${config.http.publicUrl}/shared/${token}`;
  return view('share', 'Link to a message', { link, hours: SHARED_HOURS, message });
}

/** Shows the message as a member who only reads sees it: without its content, and without buttons. */
async function shared({ db, keyring, inside }: Deps, guest: Guest): Promise<Shown> {
  const found = readShareToken(keyring, guest.params['token'] ?? '', guest.now);
  const account = found === null ? null : await findAccount({ db }, found.accountId);
  if (found === null || account === null)
    throw new Problem(
      'not_found',
      'This link has ended, or is not whole. Ask the person who gave it to you for another.',
    );
  const asking: Asking = {
    caller: memberCaller({ id: '', email: 'shared link', role: 'read_only' }, account),
    ip: guest.ip,
    userAgent: guest.userAgent,
    whenOver: () => undefined,
  };
  const reader: Reader = {
    params: { id: found.messageId },
    query: new URLSearchParams(),
    now: guest.now,
    isAdmin: false,
    may: () => false,
    // The type of the answer is made from the same declaration as its check.
    ask: async (id: string, asked = {}) => contentOf(await inside.ask(asking, id, asked)) as never,
  };
  const { data } = await messageData(reader);
  return view('message', 'A message', { ...data, sharedUntil: found.until });
}
