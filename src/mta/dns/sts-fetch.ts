/**
 * Fetches an MTA-STS policy (RFC 8461 section 3.3): HTTPS to `mta-sts.<domain>` with a valid certificate, no redirects, 60 s and
 * 64 KiB at most, and only to public addresses, which are looked up here so that nothing can change them in between.
 */
import https from 'node:https';
import { rootCertificates } from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import { isPublicAddress } from '../../base/ip.ts';
import type { Resolver } from '../../base/resolver.ts';

export type StsFetched =
  | { kind: 'text'; text: string }
  /** `isUntrusted`: the web server's certificate is at fault. */
  | { kind: 'failed'; why: string; isUntrusted?: true };
export type StsFetch = (domain: string) => Promise<StsFetched>;

const LONGEST_MS = 60_000;
const LARGEST_BYTES = 65_536;

export interface StsFetchOptions {
  allowPrivate: boolean;
  /** 443 except in tests. */
  port?: number;
  /** PEM certificates to trust beside the usual ones. */
  ca?: string;
}

export function createStsFetch(
  { clock, resolver }: { clock: Clock; resolver: Pick<Resolver, 'a'> },
  { allowPrivate, port = 443, ca }: StsFetchOptions,
): StsFetch {
  return async (domain) => {
    const host = `mta-sts.${domain}`;
    const answer = await resolver.a(host);
    if (answer.kind !== 'found') return failed(`${host} has no address`);
    const address = answer.records.find((ip) => allowPrivate || isPublicAddress(ip));
    if (address === undefined) return failed(`${host} has no public address`);
    return await get({ clock }, { host, address, port, ca });
  };
}

interface Target {
  host: string;
  address: string;
  port: number;
  ca: string | undefined;
}

function get({ clock }: { clock: Clock }, { host, address, port, ca }: Target): Promise<StsFetched> {
  return new Promise((resolve) => {
    const request = https.request({
      host: address,
      port,
      servername: host,
      path: '/.well-known/mta-sts.txt',
      headers: { host, accept: 'text/plain', 'user-agent': 'posthorn' },
      agent: false,
      minVersion: 'TLSv1.2',
      ...(ca === undefined ? {} : { ca: [...rootCertificates, ca] }),
    });
    const end = (result: StsFetched): void => {
      timer.cancel();
      resolve(result);
      request.destroy();
    };
    const timer = clock.after(LONGEST_MS, () => {
      end(failed('no policy within 60 s'));
    });
    request.on('error', (error) => {
      end(isCertificateFault(error) ? { ...failed(error.message), isUntrusted: true } : failed(error.message));
    });
    request.on('response', (response) => {
      if (response.statusCode !== 200) {
        end(failed(`the answer was ${String(response.statusCode)}`));
        return;
      }
      if (!/^text\/plain\b/i.test(response.headers['content-type'] ?? '')) {
        end(failed('the answer is not text/plain'));
        return;
      }
      const parts: Buffer[] = [];
      let bytes = 0;
      response.on('data', (part: Buffer) => {
        bytes += part.length;
        if (bytes > LARGEST_BYTES) end(failed(`it has more than ${String(LARGEST_BYTES)} bytes`));
        else parts.push(part);
      });
      response.on('error', (error) => {
        end(failed(error.message));
      });
      response.on('end', () => {
        end({ kind: 'text', text: Buffer.concat(parts).toString('utf8') });
      });
    });
    request.end();
  });
}

/** Of OpenSSL's verification, or of the comparison of names. */
const isCertificateFault = (error: Error & { code?: string }): boolean =>
  /^(?:CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_CERT_ALTNAME)/.test(error.code ?? '');

const failed = (why: string): Extract<StsFetched, { kind: 'failed' }> => ({ kind: 'failed', why });
