/**
 * Devices that have signed in before. Their cookie names the device and holds a MAC for each login that has signed in there,
 * so that wrong tries of strangers never keep a member out of a browser that they have used (OWASP "device cookies"). It is no
 * proof of who somebody is: password and second factor are asked for all the same. Nothing is stored.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { equalInConstantTime } from '../base/secret.ts';

export interface KnownDevices {
  /** The id of the device where the cookie says that this login has signed in from it; null otherwise. */
  idFor(cookie: string, emailKey: string): string | null;
  /** The id of the device where anybody has signed in from it; null otherwise. */
  idOf(cookie: string): string | null;
  /** The cookie after this login has signed in: the same device, the newest login first. */
  after(cookie: string, emailKey: string): string;
}

const ID_BYTES = 16;
/** Characters of a MAC: 120 bits. */
const MAC_LENGTH = 20;
/** Logins that one browser is known for; the oldest goes. */
const MOST_LOGINS = 5;
const form = /^([A-Za-z0-9_-]{22})((?:\.[A-Za-z0-9_-]{20}){1,6})$/;

/** `secret`: at least 32 bytes. */
export function createKnownDevices(secret: Buffer): KnownDevices {
  const macOf = (id: string, emailKey: string): string =>
    createHmac('sha256', secret).update(`${id}\n${emailKey}`).digest('base64url').slice(0, MAC_LENGTH);

  /** The first MAC is of the device alone: it tells our cookies from made-up ones. */
  function read(cookie: string): { id: string; macs: string[] } | null {
    const [, id = '', rest = ''] = form.exec(cookie) ?? [];
    const [own = '', ...macs] = rest.split('.').slice(1);
    return id !== '' && equalInConstantTime(own, macOf(id, '')) ? { id, macs } : null;
  }

  return {
    idFor(cookie, emailKey) {
      const device = read(cookie);
      if (device === null) return null;
      const wanted = macOf(device.id, emailKey);
      return device.macs.some((mac) => equalInConstantTime(mac, wanted)) ? device.id : null;
    },
    idOf: (cookie) => read(cookie)?.id ?? null,
    after(cookie, emailKey) {
      const { id, macs } = read(cookie) ?? { id: randomBytes(ID_BYTES).toString('base64url'), macs: [] };
      const mine = macOf(id, emailKey);
      return [id, macOf(id, ''), mine, ...macs.filter((mac) => mac !== mine)].slice(0, 2 + MOST_LOGINS).join('.');
    },
  };
}
