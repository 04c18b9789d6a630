/** Links to one message for a person without a login: making one, and the page that it opens. */
import { findAccount } from '../../accounts/account-store.ts';
import { contentOf, memberCaller, type Asking } from '../../api/inside.ts';
import { Problem } from '../../base/problem.ts';
import { HOUR_MS } from '../../base/time.ts';
import { actRows } from '../act.ts';
import { openedOf } from '../forms.ts';
import { once, openGet, post, view, type Guest, type Page, type Shown, type Visit } from '../page.ts';
import { messageData, type Reader } from './messages.ts';

const SHARED_HOURS = 48;
const PURPOSE = 'shared message';

export const sharedPages: readonly Page[] = [
  post('/messages/:id/share', share, { scope: 'message:content' }),
  openGet('/shared/:token', shared),
];

/** A link carries what it shows, sealed, so that nothing is stored. */
interface Sealed {
  message: string;
  account: string;
  /** Milliseconds since the epoch. */
  until: number;
}

/** Returns what a token shows; null if we did not make it, or it has ended. */
function sealedIn({ server: { keyring }, now }: Guest, token: string): Sealed | null {
  const text = openedOf(keyring, PURPOSE, token);
  if (text === null) return null;
  const sealed = JSON.parse(text.toString()) as Sealed;
  return sealed.until > now ? sealed : null;
}

async function share(visit: Visit): Promise<Shown> {
  const { id } = await visit.ask('getMessage', { params: visit.params });
  const { server, account, member, now } = visit;
  const sealed: Sealed = { message: id, account: account.id, until: now + SHARED_HOURS * HOUR_MS };
  const token = server.keyring.seal(PURPOSE, JSON.stringify(sealed));
  await server.db.commit.insert(actRows(visit, member.email, 'message.share', account.id, { object: id }));
  const link = `${server.config.http.publicUrl}/shared/${token}`;
  const message = `/messages/${id}`;
  return once('share', 'Link to a message', { link, hours: SHARED_HOURS, message }, message);
}

/** Shows the message as a member who only reads sees it: without its content, and without buttons. */
async function shared(guest: Guest): Promise<Shown> {
  const { db, inside } = guest.server;
  const found = sealedIn(guest, guest.params['token'] ?? '');
  const account = found === null ? null : await findAccount({ db }, found.account);
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
    ...guest,
    params: { id: found.message },
    query: new URLSearchParams(),
    isAdmin: false,
    may: () => false,
    // The type of the answer is made from the same declaration as its check.
    ask: async (id: string, asked = {}) => contentOf(await inside.ask(asking, id, asked)) as never,
  };
  return view('message', 'A message', { ...(await messageData(reader)), sharedUntil: found.until });
}
