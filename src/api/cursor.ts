/**
 * Cursors: opaque to the caller, base64url of a version, the position, and a MAC that also covers the list's filters, so a
 * cursor that was tampered with or belongs to another list is refused instead of giving wrong pages.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Problem } from '../base/problem.ts';

export interface Cursors {
  /** A cursor at `position` of the list that `list` names (its path and filters; the same text for the same list). */
  write(list: string, position: string): string;
  /** The position; throws `invalid_cursor` naming `field`. */
  read(list: string, cursor: string, field: string): string;
}

const VERSION = '1';
const MAC_CHARACTERS = 16;
const LONGEST_CURSOR = 300;

/** `secret` is at least 32 bytes. */
export function createCursors(secret: Buffer): Cursors {
  const mac = (list: string, position: string): string =>
    createHmac('sha256', secret)
      .update(JSON.stringify([VERSION, list, position]))
      .digest('base64url')
      .slice(0, MAC_CHARACTERS);

  return {
    write: (list, position) => Buffer.from(`${VERSION}.${position}.${mac(list, position)}`).toString('base64url'),
    read(list, cursor, field) {
      const position = cursor.length > LONGEST_CURSOR ? null : positionIn(cursor);
      if (position === null || !equal(position.mac, mac(list, position.text))) {
        throw new Problem(
          'invalid_cursor',
          'The cursor is damaged or belongs to another list; start again without it.',
          { field },
        );
      }
      return position.text;
    },
  };
}

function positionIn(cursor: string): { text: string; mac: string } | null {
  if (!/^[A-Za-z0-9_-]+$/.test(cursor)) return null;
  const [version, text, mac, ...rest] = Buffer.from(cursor, 'base64url').toString('latin1').split('.');
  if (version !== VERSION || text === undefined || mac === undefined || rest.length > 0) return null;
  return { text, mac };
}

function equal(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1'));
}
