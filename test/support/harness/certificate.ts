/** Certificates for tests, valid until 2126: a test CA and one for mx1.dest.test, mx2.dest.test, localhost and 127.0.0.1. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

const read = (name: string): string => readFileSync(path.join(import.meta.dirname, '../../fixtures/tls', name), 'utf8');

/** Signs `server` and `expired`; hand it to what shall trust them. */
export const testCa = read('ca.pem');
export const server = { key: read('server.key'), cert: read('server.pem') };
/** The same names and key, valid in January 2020. */
export const expired = { key: server.key, cert: read('expired.pem') };
/** Signed by itself, for mta-sts.dest.test and mx.dest.test: trusted where its `cert` is. */
export const stsServer = { key: read('sts.key'), cert: read('sts.pem') };
