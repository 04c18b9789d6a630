/**
 * Recognizes devices that have signed in before. Their cookie names the device and has a MAC for each login that signed in
 * there, so that wrong tries by strangers never lock members out of a browser they have used (OWASP "device cookies"). It does
 * not prove an identity: password and second factor are still required. Nothing is stored.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { equalInConstantTime } from '../base/secret.ts';

const ID_BYTES = 16;
/** Characters of a MAC: 120 bits. */
const MAC_LENGTH = 20;
/** Logins that one cookie holds; the oldest is dropped. */
const MOST_LOGINS = 5;
const form = /^([A-Za-z0-9_-]{22})((?:\.[A-Za-z0-9_-]{20}){1,6})$/;

/** `secret`: at least 32 bytes. */
export function createKnownDevices(secret: Buffer) {
  const macOf = (id: string, emailKey: string): string =>
    createHmac('sha256', secret).update(`${id}\n${emailKey}`).digest('base64url').slice(0, MAC_LENGTH);

  /** Reads a cookie. The first MAC covers the device alone: it tells our cookies from made-up ones. */
  function read(cookie: string): { id: string; macs: string[] } | null {
    const [, id = '', rest = ''] = form.exec(cookie) ?? [];
    const [own = '', ...macs] = rest.split('.').slice(1);
    return id !== '' && equalInConstantTime(own, macOf(id, '')) ? { id, macs } : null;
  }

  return {
    /** Returns the id of the device if this login has signed in from it; null otherwise. */
    idFor(cookie: string, emailKey: string): string | null {
      const device = read(cookie);
      if (device === null) return null;
      const wanted = macOf(device.id, emailKey);
      return device.macs.some((mac) => equalInConstantTime(mac, wanted)) ? device.id : null;
    },
    /** Returns the cookie after this login has signed in: the same device, the newest login first. */
    after(cookie: string, emailKey: string): string {
      const { id, macs } = read(cookie) ?? { id: randomBytes(ID_BYTES).toString('base64url'), macs: [] };
      const mine = macOf(id, emailKey);
      return [id, macOf(id, ''), mine, ...macs.filter((mac) => mac !== mine)].slice(0, 2 + MOST_LOGINS).join('.');
    },
  };
}

export type KnownDevices = ReturnType<typeof createKnownDevices>;
