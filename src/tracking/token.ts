/**
 * The tokens in tracked mail. A click's token carries its target, so a link works for ever without a row of ours, and all
 * of it is under an HMAC, so that we redirect only to addresses that we wrote. The same delivery gets the same
 * tokens at each try: no time and no chance is in them.
 *
 *   kind 1 · key 3 · host 3 · delivery 26 · [link · links · target] · HMAC-SHA256, 16 bytes      in base64url
 *
 * `host` says on which tracking host of a sending domain a link was published: otherwise a customer could have a target
 * redirected to under the name of another.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { Keyring } from '../base/keyring.ts';

/** The keys derived from one master key. Plain bytes, since they go to the composing thread as well. */
export interface TrackingKey {
  /** The first bytes of the hash of the master key's id: which key a token was made with. */
  tag: Uint8Array;
  /** Signs clicks and opens, and makes the nonces of unsubscribe links; what it is given begins with what it is for. */
  sign: Uint8Array;
  /** Encrypts unsubscribe links. */
  seal: Uint8Array;
}

/** The place of a token: a mail to one recipient, published on one host. */
export interface Stamp {
  /** `dlv_...` */
  deliveryId: string;
  /** The tracking host of the sending domain, or null for the address of the whole installation. */
  host: string | null;
}

/** A link of a mail: its number from 1, how many of them are tracked there, and where it leads. */
export interface LinkPlace {
  link: number;
  links: number;
  part: 'html' | 'text';
  url: string;
}

export type TrackingToken = { deliveryId: string; isOf: (host: string) => boolean } & (
  { kind: 'open' } | ({ kind: 'click' } & LinkPlace)
);

/** Targets longer than this many bytes are not tracked: the link must fit into the head of a request, proxies included. */
export const LONGEST_TARGET = 4096;

const TAG_BYTES = 3;
const ID_CHARACTERS = 26;
const MAC_BYTES = 16;
const HEAD_BYTES = 1 + 2 * TAG_BYTES + ID_CHARACTERS;
const LONGEST_TOKEN = Math.ceil(((HEAD_BYTES + 4 + LONGEST_TARGET + MAC_BYTES) * 4) / 3);
const OPEN = 1;
const CLICKS = { html: 2, text: 3 } as const;
const ANY_HOST = new Uint8Array(TAG_BYTES);

/** Returns all keys of the installation, the one that signs now first. */
export function trackingKeys(keyring: Pick<Keyring, 'keyIds' | 'derive'>): [TrackingKey, ...TrackingKey[]] {
  const [current = '', ...older] = keyring.keyIds;
  const keyOf = (id: string): TrackingKey => ({
    tag: createHash('sha256').update(id).digest().subarray(0, TAG_BYTES),
    sign: keyring.derive('tracking', id),
    seal: keyring.derive('unsubscribe link', id),
  });
  return [keyOf(current), ...older.map(keyOf)];
}

/** Returns the keys with this tag: nearly always one. */
export const keysTagged = (keys: readonly TrackingKey[], tag: Uint8Array): TrackingKey[] =>
  keys.filter((key) => Buffer.compare(key.tag, tag) === 0);

export const openToken = (key: TrackingKey, stamp: Stamp): string => signed(key, headOf(OPEN, key, stamp));

/** Returns the token of one link. `url` is absolute, http or https, and at most LONGEST_TARGET bytes. */
export function clickTokens(key: TrackingKey, stamp: Stamp): (place: LinkPlace) => string {
  const heads = { html: headOf(CLICKS.html, key, stamp), text: headOf(CLICKS.text, key, stamp) };
  return ({ link, links, part, url }) => {
    const numbers = Buffer.alloc(4);
    numbers.writeUInt16BE(link, 0);
    numbers.writeUInt16BE(links, 2);
    return signed(key, Buffer.concat([heads[part], numbers, Buffer.from(url)]));
  };
}

/** Reads a token; null if none of `keys` made it. */
export function readToken(keys: readonly TrackingKey[], token: string): TrackingToken | null {
  const bytes = token.length > LONGEST_TOKEN ? Buffer.alloc(0) : Buffer.from(token, 'base64url');
  // Base64 has several spellings of the same bytes; we write only one.
  if (bytes.length < HEAD_BYTES + MAC_BYTES || bytes.toString('base64url') !== token) return null;
  const said = bytes.subarray(0, -MAC_BYTES);
  const mac = bytes.subarray(-MAC_BYTES);
  const key = keysTagged(keys, said.subarray(1, 1 + TAG_BYTES)).find((one) => timingSafeEqual(macOf(one, said), mac));
  return key === undefined ? null : parse(key, said);
}

function parse(key: TrackingKey, said: Buffer): TrackingToken | null {
  const hostTag = said.subarray(1 + TAG_BYTES, 1 + 2 * TAG_BYTES);
  const common = {
    deliveryId: `dlv_${said.toString('latin1', 1 + 2 * TAG_BYTES, HEAD_BYTES)}`,
    isOf: (host: string): boolean => hostTag.equals(tagOfHost(key, host)),
  };
  const kind = said[0];
  if (kind === OPEN) return { kind: 'open', ...common };
  const part = kind === CLICKS.html ? 'html' : kind === CLICKS.text ? 'text' : null;
  if (part === null || said.length < HEAD_BYTES + 4) return null;
  const url = said.toString('utf8', HEAD_BYTES + 4);
  const link = said.readUInt16BE(HEAD_BYTES);
  return { kind: 'click', ...common, link, links: said.readUInt16BE(HEAD_BYTES + 2), part, url };
}

function headOf(kind: number, key: TrackingKey, { deliveryId, host }: Stamp): Buffer {
  const hostTag = host === null ? ANY_HOST : tagOfHost(key, host);
  return Buffer.concat([
    Uint8Array.of(kind),
    key.tag,
    hostTag,
    Buffer.from(deliveryId.slice(-ID_CHARACTERS), 'latin1'),
  ]);
}

const signed = (key: TrackingKey, said: Buffer): string =>
  Buffer.concat([said, macOf(key, said)]).toString('base64url');

const macOf = (key: TrackingKey, said: Buffer): Buffer =>
  createHmac('sha256', key.sign).update(said).digest().subarray(0, MAC_BYTES);

/** Returns the tag of a host. It is keyed, so that no one can search for another name with the same tag. */
const tagOfHost = (key: TrackingKey, host: string): Buffer =>
  createHmac('sha256', key.sign).update(`host ${host}`).digest().subarray(0, TAG_BYTES);
