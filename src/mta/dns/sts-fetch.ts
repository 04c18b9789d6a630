/**
 * Fetches an MTA-STS policy (RFC 8461 section 3.3): HTTPS to `mta-sts.<domain>` with a valid certificate, no redirects, 80 KiB
 * with its head at most, and only to public addresses, which are looked up here so that nothing can change them in between. All addresses are
 * tried, IPv6 and IPv4, as those of mail hosts are. The first mail to a domain waits for this, so the time is short.
 */
import https from 'node:https';
import type { Socket } from 'node:net';
import { connect, rootCertificates } from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import { limitAnswers } from '../../net/safe-fetch.ts';
import { isPublicAddress } from '../../net/ip.ts';
import type { Resolver } from '../../net/resolver.ts';
import { connectFirst } from '../connection/connect.ts';
import { checkAlternativeNames } from '../connection/tls.ts';

export type StsFetched =
  | { kind: 'text'; text: string }
  /**
   * `isUntrusted`: the web server's certificate is at fault. `isUnknown`: our DNS gave no answer, so it is not their fault.
   * `isAnswer`: the web server has answered, and has no policy.
   */
  | { kind: 'failed'; why: string; isUntrusted?: true; isUnknown?: true; isAnswer?: true };
export type StsFetch = (domain: string) => Promise<StsFetched>;

const CONNECT_MS = 10_000;
const HEAD_START_MS = 1_000;
/** The limit of the answer from the connection on, in ms; half of what is left for an address with others behind it. */
const ANSWER_MS = 20_000;
const MOST_ADDRESSES = 4;
/** The size of a policy (RFC 8461 section 3.3). A larger one that ends is not cut off by the limit of what comes, which looks between turns. */
const LARGEST_BYTES = 65_536;

export interface StsFetchOptions {
  allowPrivate: boolean;
  /** 443 except in tests. */
  port?: number;
  /** PEM certificates to trust in addition to the usual ones. */
  ca?: string;
}

export function createStsFetch(
  { clock, resolver }: { clock: Clock; resolver: Pick<Resolver, 'a' | 'aaaa'> },
  { allowPrivate, port = 443, ca }: StsFetchOptions,
): StsFetch {
  return async (domain) => {
    const host = `mta-sts.${domain}`;
    const answers = await Promise.all([resolver.aaaa(host), resolver.a(host)]);
    const addresses = answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : []));
    const trouble = answers.find((answer) => answer.kind === 'trouble');
    if (addresses.length === 0 && trouble !== undefined)
      return { ...failed(`${host}: ${trouble.text}`), isUnknown: true };
    if (addresses.length === 0) return failed(`${host} has no address`);
    const ips = addresses.filter((ip) => allowPrivate || isPublicAddress(ip));
    if (ips.length === 0) return failed(`${host} has no public address`);
    return await fromFirst(ips.slice(0, MOST_ADDRESSES), host);
  };

  /** Asks one address after the other until one answers: behind an address that takes connections there may be no web server. */
  async function fromFirst(all: readonly string[], host: string): Promise<StsFetched> {
    let ips = all;
    let untrusted: StsFetched | null = null;
    let answerMs = ANSWER_MS;
    for (;;) {
      const connected = await connectFirst({ clock }, { ips, port, timeoutMs: CONNECT_MS, headStartMs: HEAD_START_MS });
      if (connected.kind === 'failed') return untrusted ?? failed(connected.text);
      ips = ips.filter((ip) => ip !== connected.ip);
      if (ips.length > 0) answerMs /= 2;
      const fetched = await get({ clock }, connected.socket, host, { ca, answerMs });
      if (fetched.kind === 'text' || fetched.isAnswer === true) return fetched;
      if (fetched.isUntrusted === true) untrusted ??= fetched;
      if (ips.length === 0) return untrusted ?? fetched;
    }
  }
}

function get(
  { clock }: { clock: Clock },
  raw: Socket,
  host: string,
  { ca, answerMs }: { ca: string | undefined; answerMs: number },
): Promise<StsFetched> {
  return new Promise((resolve) => {
    const socket = connect({
      socket: raw,
      servername: host,
      minVersion: 'TLSv1.2',
      checkServerIdentity: checkAlternativeNames,
      ...(ca === undefined ? {} : { ca: [...rootCertificates, ca] }),
    });
    socket.once('secureConnect', () => limitAnswers(socket, raw));
    const request = https.request({
      host,
      path: '/.well-known/mta-sts.txt',
      headers: { host, accept: 'text/plain', 'user-agent': 'posthorn' },
      createConnection: () => socket,
    });
    const end = (result: StsFetched): void => {
      timer.cancel();
      resolve(result);
      request.destroy();
      socket.destroy();
      raw.destroy();
    };
    const timer = clock.after(answerMs, () => end(failed(`no policy within ${String(answerMs / 1000)} s`)));
    request.on('error', (error) =>
      end(isCertificateFault(error) ? { ...failed(error.message), isUntrusted: true } : failed(error.message)),
    );
    request.on('response', (response) => {
      if (response.statusCode !== 200) {
        end({ ...failed(`the answer was ${String(response.statusCode)}`), isAnswer: true });
        return;
      }
      if (!/^text\/plain\b/i.test(response.headers['content-type'] ?? '')) {
        end({ ...failed('the answer is not text/plain'), isAnswer: true });
        return;
      }
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', (error) => end(failed(error.message)));
      response.on('end', () => {
        const body = Buffer.concat(parts);
        end(
          body.length > LARGEST_BYTES
            ? { ...failed(`it has more than ${String(LARGEST_BYTES)} bytes`), isAnswer: true }
            : { kind: 'text', text: body.toString('utf8') },
        );
      });
    });
    request.end();
  });
}

/** Returns whether the error is of OpenSSL's verification, or of the comparison of names. */
const isCertificateFault = (error: Error & { code?: string }): boolean =>
  /^(?:CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_CERT_ALTNAME)/.test(error.code ?? '');

const failed = (why: string): Extract<StsFetched, { kind: 'failed' }> => ({ kind: 'failed', why });
