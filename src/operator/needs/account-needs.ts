/** The rules for what needs a person in an account: domains, webhooks, keys and deferred mail. Pure. */
import { pluralize } from '../../base/pluralize.ts';
import { lostOf, lostText, stateOf } from '../../domains/lost-records.ts';
import type { HeldMail } from '../holds.ts';
import { capital, need, SOON_MS, uri, waits, type AccountFacts, type Deferred, type Need, type Rule } from './need.ts';

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
            message: `The webhook ${url} is disabled: ${(why ?? 'it failed').replace(/\.$/, '')}.`,
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

/** From this many recipients on, deferred mail is more than a receiver's greylist or a full mailbox. */
const MANY_DEFERRED = 10;

/** Returns whether a large receiver refuses us for what we send, whatever the number: its own code, or a code of policy (RFC 3463, x.7). */
const isAboutUs = ({ lane, code }: Deferred): boolean => !lane.includes('.') && /^(?:[45]\.7\.|[A-Z]+\d)/.test(code);

/** Deferred mail: one line for a large receiver's cause, one for a host with much, and one for all the rest. What keeps a whole lane back is an item already. */
const deferred: Rule<AccountFacts> = ({ deferred: all }, { server }) => {
  const listed = new Set(
    server?.held.filter(({ by }) => by === 'rest' || by === 'block_list').map(({ target }) => target),
  );
  const groups = new Map<string, Deferred>();
  for (const one of all) {
    if (listed.has(one.lane)) continue;
    const key = isAboutUs(one) ? `${one.lane} ${one.code}` : one.lane.startsWith('~') ? one.domain : one.lane;
    const before = groups.get(key);
    groups.set(key, { ...(before ?? one), waiting: one.waiting + (before?.waiting ?? 0) });
  }
  // Mail that was not tried yet waits behind what was deferred, and is most of it if a host is down.
  const inAll = ({ lane, waiting }: Deferred): number => {
    const there = lane.startsWith('~') ? [] : (server?.domains ?? []).filter((one) => one.lane === lane);
    return Math.max(
      waiting,
      there.reduce((sum, one) => sum + one.waiting, 0),
    );
  };
  const isMuch = (one: Deferred): boolean => isAboutUs(one) || inAll(one) >= MANY_DEFERRED;
  const found = [...groups.values()];
  return [
    ...found.filter(isMuch).map((one) => deferredNeed(one, inAll(one), server === null ? null : one.domain)),
    ...littleDeferred(found.filter((one) => !isMuch(one))),
  ];
};

function deferredNeed({ lane, domain, code, waiting, reply }: Deferred, total: number, tryDomain: string | null): Need {
  const name = lane.startsWith('~') ? domain : lane;
  const inAll = total > waiting ? `; ${total.toLocaleString('en-US')} wait there in all` : '';
  return need({
    kind: 'deferred',
    title: `${capital(name)} defers mail: ${code}`,
    level: 'amber',
    message: `${name}: ${pluralize(waiting, 'recipient')} deferred, ${code}, and tried again by schedule${inAll}. The last answer: ${reply}`,
    mails: waiting,
    try_domain: tryDomain,
    action: {
      label: 'The mail',
      href: `/messages?status=deferred&q=${uri(`@${domain}`)}`,
      command: `posthorn queue list --domain ${domain} --status deferred`,
    },
  });
}

function littleDeferred(little: readonly Deferred[]): Need[] {
  if (little.length === 0) return [];
  const mails = little.reduce((sum, { waiting }) => sum + waiting, 0);
  const hosts = new Set(little.map(({ lane, domain }) => (lane.startsWith('~') ? domain : lane))).size;
  const title = `${pluralize(mails, 'mail')} at ${pluralize(hosts, 'host')} ${mails === 1 ? 'retries' : 'retry'} by ${mails === 1 ? 'itself' : 'themselves'}`;
  return [
    need({
      kind: 'deferred_little',
      level: 'grey',
      message: `${title}.`,
      mails,
      action: {
        label: 'The mail',
        href: '/messages?status=deferred',
        command: 'posthorn queue list --status deferred',
      },
    }),
  ];
}

export const accountRules: readonly Rule<AccountFacts>[] = [sendingDomains, webhooks, keys, deferred];
