/** The rules for what needs a person in an account: domains, webhooks, keys and deferred mail. Pure. */
import { pluralize } from '../../base/pluralize.ts';
import { lostOf, lostText, stateOf } from '../../domains/lost-records.ts';
import type { HeldMail } from '../held-mail.ts';
import { need, SOON_MS, uri, waits, type AccountFacts, type Deferred, type Rule } from './need.ts';

const sendingDomains: Rule<AccountFacts> = ({ id: account, domains }, { server }) =>
  domains.flatMap((domain) => {
    const { id, name, records, refused_at: at, taken } = domain;
    const state = stateOf(domain);
    const action = { label: 'Its DNS records', href: `/domains/${id}`, command: `posthorn domains show ${name}` };
    const isOf = (held: HeldMail): boolean =>
      held.by === 'domain_refused' && held.account_id === account && held.target === name;
    const mails = server?.held.find(isOf)?.waiting ?? 0;
    const because = lostText(lostOf(records));
    if (state === 'refused')
      return [
        need({
          kind: 'domain_refused',
          level: 'red',
          message: `Mail from ${name} is refused, because ${because}.${waits(mails)}`,
          mails,
          since: at,
          action,
        }),
      ];
    if (state === 'failing')
      return [
        need({
          kind: 'domain_failing',
          level: 'amber',
          message: `${name}: ${because}. Mail from it is still sent for now, and is refused once the grace period has ended.`,
          until: at,
          action,
        }),
      ];
    if (state !== 'unverified') return [];
    const why = taken ? 'another account has verified the name' : 'its DNS records were not all found yet';
    return [
      need({
        kind: 'domain_unverified',
        level: 'amber',
        message: `Mail from ${name} is refused: ${why}.${waits(mails)}`,
        mails,
        action,
      }),
    ];
  });

const webhooks: Rule<AccountFacts> = ({ webhooks: all }) =>
  all.flatMap(
    ({ id, url, status, disabled_reason: why, failing_since: since, last_success_at: good, last_failure_at: bad }) => {
      const action = { label: 'The webhook', href: `/webhooks/${id}`, command: 'posthorn webhooks list' };
      if (status === 'disabled')
        return [
          need({
            kind: 'webhook_disabled',
            level: 'red',
            message: `The webhook ${url} is disabled: ${why ?? 'it failed'}.`,
            action,
          }),
        ];
      if (status !== 'active' || bad === null || (good !== null && good >= bad)) return [];
      return [
        need({
          kind: 'webhook_failing',
          level: 'amber',
          message: `The last call to the webhook ${url} failed. It is called again, and is disabled after five days of failures.`,
          since: since ?? bad,
          action,
        }),
      ];
    },
  );

/** Live keys that end. A test key sends no mail, and a key that was made for a short time is listed in the last quarter of it. */
const keys: Rule<AccountFacts> = ({ keys: all }, { now }) =>
  all.flatMap(({ id, name, mode, created_at: made, expires_at: at, revoked_at: revoked }) => {
    if (mode === 'test' || revoked !== null || at === null) return [];
    const end = Date.parse(at);
    const soon = Math.min(SOON_MS, (end - Date.parse(made)) / 4);
    if (end - now > soon || now - end > SOON_MS) return [];
    return [
      need({
        kind: 'key_ends',
        level: end <= now ? 'red' : 'amber',
        message: `The key "${name}" ${end <= now ? 'has ended: requests with it are refused' : 'ends soon; requests with it are refused then'}.`,
        until: at,
        action: { label: 'The key', href: `/developer/keys/${id}`, command: 'posthorn keys list' },
      }),
    ];
  });

/** Deferred mail, one line for a lane and cause. What keeps a whole lane back is an item of the server already. */
const deferred: Rule<AccountFacts> = ({ deferred: all }, { server }) => {
  const listed = new Set(
    server?.held.filter(({ by }) => by === 'rest' || by === 'block_list').map(({ target }) => target),
  );
  const groups = new Map<string, Deferred>();
  for (const one of all) {
    if (listed.has(one.lane)) continue;
    const key = `${one.lane} ${one.code}`;
    groups.set(key, { ...one, waiting: one.waiting + (groups.get(key)?.waiting ?? 0) });
  }
  // Mail that was not tried yet waits behind what was deferred, and is most of it if a host is down.
  const inAll = (lane: string, mails: number): string => {
    const there = lane.startsWith('~') ? [] : (server?.domains ?? []).filter((one) => one.lane === lane);
    const all = there.reduce((sum, one) => sum + one.waiting, 0);
    return all > mails ? `; ${all.toLocaleString('en-US')} wait there in all` : '';
  };
  return [...groups.values()].map(({ lane, domain, code, waiting, reply }) =>
    need({
      kind: 'deferred',
      level: 'amber',
      message: `${lane.startsWith('~') ? domain : lane}: ${pluralize(waiting, 'recipient')} deferred, ${code}, and tried again by schedule${inAll(lane, waiting)}. The last answer: ${reply}`,
      mails: waiting,
      try_domain: server === null ? null : domain,
      action: {
        label: 'The mail',
        href: `/messages?status=deferred&q=${uri(`@${domain}`)}`,
        command: `posthorn queue list --domain ${domain} --status deferred`,
      },
    }),
  );
};

export const accountRules: readonly Rule<AccountFacts>[] = [sendingDomains, webhooks, keys, deferred];
