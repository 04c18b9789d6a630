/** The self-signed certificate of an installation without one: stored in the data folder while its name is right and it has not expired. */
import {
  createPrivateKey,
  X509Certificate,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
} from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isMissing } from '../base/error-code.ts';
import { replaceFile } from '../base/replace-file.ts';
import type { Certificate } from './certificate.ts';
import { DAY_MS } from '../base/time.ts';

export const OWN_CERT_FILE = 'self-signed-cert.pem';
const KEY_FILE = 'self-signed-key.pem';

export interface OwnCertificate {
  certificate: Certificate;
  /** Why the stored one could not be used and was made again; null if it could. */
  broken: string | null;
}

/** Reads the certificate, or makes one if it is missing, broken, expired, or for another name. Throws if the folder cannot be read or written. */
export function ownCertificate(dataDir: string, hostname: string, now: number): OwnCertificate {
  const certFile = path.join(dataDir, OWN_CERT_FILE);
  const keyFile = path.join(dataDir, KEY_FILE);
  const stored = read(certFile, keyFile);
  const broken = stored === null ? null : faultOf(stored, certFile, keyFile);
  if (stored !== null && broken === null && !isOld(stored.cert, hostname, now)) return { certificate: stored, broken };
  const made = makeSelfSigned(hostname, now);
  // After a power cut in between the pair does not match, and is made again.
  replaceFile(keyFile, made.key, 0o600);
  replaceFile(certFile, made.cert, 0o644);
  return { certificate: made, broken };
}

/** Returns null if one of the files is missing. */
function read(certFile: string, keyFile: string): Certificate | null {
  try {
    return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
  } catch (error) {
    if (!isMissing(error)) throw error;
    return null;
  }
}

/** Returns why our pair cannot be used, or null. Of a certificate that we did not make the key is not looked at: it is never replaced. */
function faultOf({ cert, key }: Certificate, certFile: string, keyFile: string): string | null {
  const certificate = parsed(() => new X509Certificate(cert));
  if (certificate === null) return `${certFile} is not a certificate`;
  if (ownName(certificate) === null) return null;
  const privateKey = parsed(() => createPrivateKey(key));
  if (privateKey === null) return `${keyFile} is not a key`;
  return certificate.checkPrivateKey(privateKey) ? null : `${keyFile} is not the key of ${certFile}`;
}

function parsed<T>(parse: () => T): T | null {
  try {
    return parse();
  } catch {
    return null; // the caller says which file
  }
}

/** Returns the host name of a certificate that we have made, null for another one. */
function ownName({ issuer, subject, subjectAltName }: X509Certificate): string | null {
  const own = /^DNS:([^,\s]+)$/.exec(subjectAltName ?? '')?.[1];
  return issuer === subject && own !== undefined && subject === `CN=${own.slice(0, 64)}` ? own : null;
}

/** Returns whether our certificate must be replaced: the first start comes before the name is set, and without a battery perhaps in 1970. */
function isOld(cert: string, hostname: string, now: number): boolean {
  const certificate = new X509Certificate(cert);
  const own = ownName(certificate);
  return own !== null && (own !== hostname || Date.parse(certificate.validTo) <= now);
}

/** A certificate signed by itself (RFC 5280, RFC 5480): it cannot be verified, but it protects passwords from those who only listen. */

const SEQUENCE = 0x30;
const SET = 0x31;
const ECDSA_WITH_SHA256 = '1.2.840.10045.4.3.2';
const COMMON_NAME = '2.5.4.3';
const SUBJECT_ALT_NAME = '2.5.29.17';
const BASIC_CONSTRAINTS = '2.5.29.19';
const EXTENDED_KEY_USAGE = '2.5.29.37';
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

/** A P-256 key and a certificate for `hostname`, good for ten years from `now` (milliseconds since the epoch). */
export function makeSelfSigned(hostname: string, now: number): Certificate {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
  const algorithm = der(SEQUENCE, oid(ECDSA_WITH_SHA256));
  const name = der(SEQUENCE, der(SET, der(SEQUENCE, oid(COMMON_NAME), der(0x0c, Buffer.from(hostname.slice(0, 64))))));
  const extensions = [
    extension(SUBJECT_ALT_NAME, der(SEQUENCE, der(0x82, Buffer.from(hostname, 'latin1')))),
    extension(BASIC_CONSTRAINTS, der(SEQUENCE)),
    extension(EXTENDED_KEY_USAGE, der(SEQUENCE, oid(SERVER_AUTH))),
  ];
  const until = new Date(now);
  until.setUTCFullYear(until.getUTCFullYear() + 10);
  const body = der(
    SEQUENCE,
    der(0xa0, der(0x02, Buffer.from([2]))),
    // Positive, and never zero in front.
    der(0x02, Buffer.concat([Buffer.from([0x4d]), randomBytes(15)])),
    algorithm,
    name,
    der(SEQUENCE, time(new Date(now - CLOCK_SKEW_MS)), time(until)),
    name,
    publicKey,
    der(0xa3, der(SEQUENCE, ...extensions)),
  );
  const signature = sign('sha256', body, privateKey);
  const certificate = der(SEQUENCE, body, algorithm, der(0x03, Buffer.from([0]), signature));
  return {
    cert: pem('CERTIFICATE', certificate),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

/** Clients whose clock is a little behind must not find it in their future. */
const CLOCK_SKEW_MS = DAY_MS;

/** X.690 section 8.1: tag, length, contents. */
function der(tag: number, ...contents: Buffer[]): Buffer {
  const body = Buffer.concat(contents);
  const { length } = body;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return der(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

function base128(value: number): number[] {
  const digits = [value & 0x7f];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128))
    digits.unshift((rest & 0x7f) | 0x80);
  return digits;
}

const extension = (id: string, value: Buffer): Buffer => der(SEQUENCE, oid(id), der(0x04, value));

/** RFC 5280 section 4.1.2.5: UTCTime through 2049, GeneralizedTime after. */
function time(at: Date): Buffer {
  const digits = at.toISOString().replace(/\.\d+/, '').replaceAll(/[-:T]/g, '');
  return at.getUTCFullYear() < 2050 ? der(0x17, Buffer.from(digits.slice(2))) : der(0x18, Buffer.from(digits));
}

const pem = (label: string, bytes: Buffer): string =>
  `-----BEGIN ${label}-----\n${bytes.toString('base64').replace(/.{64}/g, '$&\n').trimEnd()}\n-----END ${label}-----\n`;
