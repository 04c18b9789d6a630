/**
 * The peers beside which we are measured: Postfix's own sink as the receiver of all, and a Postfix that relays from SMTP to
 * SMTP, alone or with OpenDKIM signing as its milter. Each runs from a folder of its own on loopback and is stopped again.
 */
import { spawn } from 'node:child_process';
import { startSigner } from '../support/harness/opendkim.ts';
import type { OpenDkim } from '../support/harness/opendkim.ts';
import { canConnect, freePort, until } from '../support/harness/peer.ts';
import { startPostfix as startConfigured } from '../support/harness/postfix.ts';
import type { Postfix } from '../support/harness/postfix.ts';

export { freePort, missing, until } from '../support/harness/peer.ts';

export interface Sink {
  port: number;
  /** Messages taken so far. */
  count(): number;
  stop(): void;
}

/** `smtp-sink -c`: takes everything, counts it, keeps nothing. */
export async function startSink(): Promise<Sink> {
  const port = await freePort();
  const child = spawn('smtp-sink', ['-u', 'nobody', '-c', `127.0.0.1:${String(port)}`, '2000'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let count = 0;
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => {
    // The counter is one growing line of numbers, each followed by a carriage return.
    text = (text + chunk.toString('latin1')).slice(-200);
    const last = /(\d+)\D*$/.exec(text.slice(0, text.lastIndexOf('\r') + 1));
    if (last?.[1] !== undefined) count = Number(last[1]);
  });
  await until(() => canConnect(port), 'smtp-sink');
  return { port, count: () => count, stop: () => child.kill('SIGKILL') };
}

/** A Postfix of its own, relaying to `sinkPort`. `sessions` is how many connections it opens to the sink. */
export function startPostfix(sinkPort: number, sessions: number, milter?: string): Promise<Postfix> {
  return startConfigured({ hostname: 'peer.bench.test', main: () => relayCf(sinkPort, sessions, milter) });
}

const relayCf = (sinkPort: number, sessions: number, milter: string | undefined): string => `mynetworks = 127.0.0.0/8
relayhost = [127.0.0.1]:${String(sinkPort)}
smtpd_recipient_restrictions = permit_mynetworks, reject
smtp_destination_concurrency_limit = ${String(sessions)}
default_process_limit = ${String(Math.max(100, sessions))}
initial_destination_concurrency = ${String(sessions)}
smtpd_client_connection_count_limit = 0
smtp_tls_security_level = none
${milter === undefined ? '' : `smtpd_milters = ${milter}\nmilter_default_action = tempfail\n`}`;

/** OpenDKIM signing with RSA-2048 as a milter on a Unix socket. */
export function startOpenDkim(domain: string): Promise<OpenDkim> {
  return startSigner(domain);
}
