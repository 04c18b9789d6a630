/**
 * Replaces the facts about an erased person in events by values of the same type, so that records keep their published form.
 * Facts that come after the erasure, such as a click on the old mail, are stored in the same form.
 */

/** The target of an erased click. */
const ERASED_URL = 'https://erased.invalid/';
const ERASED_TEXT = 'erased';

/** Facts that browsers and mail programs send about their users. */
const ofUsers = { ip: null, user_agent: null, client: null, os: null, device: null, url: ERASED_URL } as const;
/** Replies of mail servers and texts made of them often repeat the address. */
const ofHosts = { smtp_reply: null, message: ERASED_TEXT } as const;
/** Types whose facts come from a user. The `ip` of a delivery belongs to a mail host and is not personal. */
const byUsers: ReadonlySet<string> = new Set(['opened', 'clicked', 'complained']);

/** Returns the detail of an event of this type without its personal facts. */
export function erasedDetail(type: string, detail: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const erased: Readonly<Record<string, unknown>> = byUsers.has(type) ? { ...ofHosts, ...ofUsers } : ofHosts;
  return Object.fromEntries(
    Object.entries(detail).map(([name, value]) => [name, name in erased ? erased[name] : value]),
  );
}
