/**
 * Records opens and clicks. The visitor has the answer already; here the visitor is told apart from a machine, reduced to what may be stored, and the
 * hit is written like every change of a delivery, together with the other units of the next commit. A scanner follows all links of a mail at once. So
 * the first click on a mail with several links waits for two seconds: if all the others come within them, it was a machine. What waits is written
 * when the program stops.
 */
import { isIPv4 } from 'node:net';
import type { Clock, Timer } from '../base/clock.ts';
import { plainAddress, prefixOf } from '../net/ip.ts';
import type { DeliveryChange, Hit } from '../messages/delivery/delivery.ts';
import type { Recorder } from '../messages/delivery/record.ts';
import type { BotOf, Visitor } from './bots.ts';
import type { LinkPlace } from './token.ts';
import { MINUTE_MS } from '../base/time.ts';

export interface HitDeps {
  clock: Clock;
  recorder: Pick<Recorder, 'record'>;
  botOf: BotOf;
  privacy: { storeIp: 'full' | 'truncated' | 'none'; storeUserAgent: boolean };
  /** Writing failed: the hit is lost. */
  failed: (error: unknown) => void;
}

interface Click {
  place: LinkPlace;
  hit: Hit;
}

/** Clicks on one mail that may be a scanner's. */
interface Watch {
  clicks: Click[];
  seen: Set<number>;
  timer: Timer;
}

const SWEEP_MS = 2_000;
/** Clicks that wait at once; beyond, they are taken as they look. */
const MOST_WAITING = 20_000;
/** Hits on one mail that are written a minute. Everyone who has the mail has its links, and must not fill the disk with them. */
const MOST_A_MINUTE = 60;

export type Hits = ReturnType<typeof createHits>;

export function createHits(deps: HitDeps) {
  const { clock, recorder, botOf } = deps;
  const watches = new Map<string, Watch>();
  const writing = new Set<Promise<unknown>>();
  let waiting = 0;
  let minute = { end: -Infinity, counts: new Map<string, number>() };

  function isTooMany(deliveryId: string): boolean {
    const now = clock.monotonic();
    if (now >= minute.end) minute = { end: now + MINUTE_MS, counts: new Map() };
    const count = (minute.counts.get(deliveryId) ?? 0) + 1;
    minute.counts.set(deliveryId, count);
    return count > MOST_A_MINUTE;
  }

  /** Hits of one moment share a commit, and a failed one takes no other with it. */
  function write(deliveryId: string, changes: readonly DeliveryChange[]): void {
    const written = recorder
      .record(changes.map((change) => ({ deliveryId, change })))
      .catch(deps.failed)
      .finally(() => writing.delete(written));
    writing.add(written);
  }

  function settle(deliveryId: string): void {
    const watch = watches.get(deliveryId);
    if (watch === undefined) return;
    watches.delete(deliveryId);
    waiting -= watch.clicks.length;
    const isSweep = watch.clicks.some(({ place }) => watch.seen.size >= place.links);
    const changes = watch.clicks.map(({ place, hit }) => clickedBy(place, isSweep ? { ...hit, bot: 'scanner' } : hit));
    write(deliveryId, changes);
  }

  function wait(deliveryId: string, click: Click): void {
    let watch = watches.get(deliveryId);
    if (watch === undefined) {
      watch = { clicks: [], seen: new Set(), timer: clock.after(SWEEP_MS, () => settle(deliveryId)) };
      watches.set(deliveryId, watch);
    }
    watch.clicks.push(click);
    watch.seen.add(click.place.link);
    waiting++;
  }

  return {
    /** Records that the pixel of this delivery was asked for. */
    opened(deliveryId: string, visitor: Visitor): void {
      if (isTooMany(deliveryId)) return;
      const hit = hitOf(deps, visitor, botOf('open', visitor));
      write(deliveryId, [{ kind: 'opened', hit, ...readAgent(visitor.userAgent) }]);
    },
    clicked(deliveryId: string, place: LinkPlace, visitor: Visitor): void {
      const isUnwritten = isTooMany(deliveryId);
      const click = { place, hit: hitOf(deps, visitor, botOf('click', visitor)) };
      if (isUnwritten) {
        // It still tells who follows all links of a mail that has more of them than are written.
        if (click.hit.bot === null) watches.get(deliveryId)?.seen.add(place.link);
        return;
      }
      // One link alone proves nothing: a click on it is a click on all of them.
      const isOpen = click.hit.bot === null && place.links > 1 && waiting < MOST_WAITING;
      if (isOpen) wait(deliveryId, click);
      else write(deliveryId, [clickedBy(place, click.hit)]);
    },
    /** Resolves when all that was seen is durable. */
    async close(): Promise<void> {
      for (const [deliveryId, watch] of watches) {
        watch.timer.cancel();
        settle(deliveryId);
      }
      await Promise.all(writing);
    },
  };
}

const clickedBy = ({ link, part, url }: LinkPlace, hit: Hit): DeliveryChange => ({
  kind: 'clicked',
  hit,
  url,
  linkId: String(link),
  part,
});

function hitOf({ clock, privacy }: HitDeps, { ip, userAgent }: Visitor, bot: Hit['bot']): Hit {
  return {
    at: clock.now(),
    ip: ip === null || privacy.storeIp === 'none' ? null : privacy.storeIp === 'full' ? ip : truncated(ip),
    userAgent: privacy.storeUserAgent ? userAgent : null,
    bot,
  };
}

/** Returns the network of an address: /24, for IPv6 /48, so that a household cannot be told from its neighbours. Null without an address. */
export function truncated(ip: string): string | null {
  const plain = plainAddress(ip);
  if (plain === null) return null;
  return isIPv4(plain) ? plain.replace(/\d+$/, '0') : `${prefixOf(plain, 3)}::`;
}

/** The program and device that a User-Agent names, for people who look at an event. */
interface Agent {
  client: string | null;
  os: string | null;
  device: 'desktop' | 'phone' | 'tablet' | null;
}

/** The first match counts; an agent that also names others is listed before them. */
const CLIENTS: readonly (readonly [mark: string, name: string])[] = [
  ['GoogleImageProxy', 'Gmail'],
  ['YahooMailProxy', 'Yahoo Mail'],
  ['Thunderbird', 'Thunderbird'],
  ['Microsoft Outlook', 'Outlook'],
  ['MSOffice', 'Outlook'],
  ['Outlook-iOS', 'Outlook'],
  ['Outlook-Android', 'Outlook'],
  ['SamsungBrowser', 'Samsung Internet'],
  ['Edg/', 'Edge'],
  ['EdgA/', 'Edge'],
  ['EdgiOS/', 'Edge'],
  ['OPR/', 'Opera'],
  ['Vivaldi', 'Vivaldi'],
  ['FxiOS', 'Firefox'],
  ['Firefox', 'Firefox'],
  ['CriOS', 'Chrome'],
  ['Chrome', 'Chrome'],
  ['Safari', 'Safari'],
  ['AppleWebKit', 'Apple Mail'],
];

const SYSTEMS: readonly (readonly [mark: string, name: string])[] = [
  ['iPhone', 'iOS'],
  ['iPad', 'iPadOS'],
  ['Android', 'Android'],
  ['Windows', 'Windows'],
  ['CrOS', 'ChromeOS'],
  ['Mac OS X', 'macOS'],
  ['Macintosh', 'macOS'],
  ['Linux', 'Linux'],
];

/** Longer ones are cut: the table looks through the text once for each of its rows. */
const LONGEST = 512;

export function readAgent(userAgent: string | null): Agent {
  const text = (userAgent ?? '').slice(0, LONGEST);
  const named = (table: typeof CLIENTS): string | null => table.find(([mark]) => text.includes(mark))?.[1] ?? null;
  const os = named(SYSTEMS);
  // A proxy does not show who is behind it.
  if (text.includes('ImageProxy') || text.includes('MailProxy'))
    return { client: named(CLIENTS), os: null, device: null };
  return { client: named(CLIENTS), os, device: deviceOf(text, os) };
}

function deviceOf(text: string, os: string | null): Agent['device'] {
  if (os === null) return null;
  if (os === 'iPadOS') return 'tablet';
  // Android tablets leave the word out.
  if (os === 'Android') return text.includes('Mobile') ? 'phone' : 'tablet';
  return os === 'iOS' ? 'phone' : 'desktop';
}
