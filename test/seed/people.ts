/** Recipients: a town of people who get mail again and again, with names and addresses in many scripts and lengths. Pure. */
import { addressKey } from '../../src/mail/address.ts';
import { chanceOf } from './chance.ts';
import { familyNames, givenNames, mailboxDomains, waitingDomains } from './words.ts';

export interface Person {
  number: number;
  name: string | null;
  address: string;
  key: string;
  domain: string;
}

/** Every so many have the longest local part there is. */
const EVERY_LONG = 397;

/** Always the same person for the same number. One whose mail waits lives where no host can be dialled. */
export function personOf(number: number, waits: boolean): Person {
  const chance = chanceOf(number * 2654435761);
  const drawn = chance.weighted(mailboxDomains);
  const domain = waits ? chance.pick(waitingDomains) : drawn;
  const local = `customer.${number.toString(36)}`;
  const full = number % EVERY_LONG === 0 ? `${local}+${'x'.repeat(63 - local.length)}` : local;
  const address = `${number % 50 === 7 ? full.toUpperCase() : full}@${domain}`;
  const name = chance.odds(0.6) ? `${chance.pick(givenNames)} ${chance.pick(familyNames)}` : null;
  return { number, name, address, key: addressKey(address), domain };
}
