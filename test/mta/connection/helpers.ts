/** Targets and mails with everything filled in, for the tests of this folder. */
import { openSession } from '../../../src/mta/connection/open-session.ts';
import type { OpenDeps, OpenResult, SessionTarget } from '../../../src/mta/connection/open-session.ts';
import type { PhaseTimeouts } from '../../../src/mta/connection/phases.ts';
import type { Mail, Session } from '../../../src/mta/connection/session.ts';
import { createTlsClient } from '../../../src/mta/connection/tls.ts';
import type { TlsNeed } from '../../../src/mta/connection/tls-policy.ts';
import { testCa } from '../../support/harness/certificate.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';

export const opportunistic: TlsNeed = { mode: 'opportunistic', verify: 'no', tlsa: [], policy: 'opportunistic' };
export const required: TlsNeed = { mode: 'required', verify: 'no', tlsa: [], policy: 'operator' };
export const verified: TlsNeed = { mode: 'required', verify: 'name', tlsa: [], policy: 'mta-sts' };

/** Each phase has a different time, so that a test sees which one is running. */
export const timeouts: PhaseTimeouts = {
  connect: 30_000,
  banner: 300_000,
  bannerWithOthers: 120_000,
  ehlo: 303_000,
  tls: 60_000,
  auth: 119_000,
  mail: 301_000,
  rcpt: 302_000,
  data: 121_000,
  block: 180_000,
  dot: 600_000,
  attempt: 1_800_000,
};

export function openDeps(): OpenDeps & { clock: FakeClock } {
  return { clock: new FakeClock(), tls: createTlsClient({ ca: testCa }) };
}

export function targetOf(server: { port: number }, changes: Partial<SessionTarget> = {}): SessionTarget {
  return {
    host: 'mx1.dest.test',
    ips: ['127.0.0.1'],
    port: server.port,
    ehlo: 'mail.posthorn.test',
    need: opportunistic,
    timeouts,
    otherHostsRemain: false,
    ...changes,
  };
}

export async function opened(deps: OpenDeps, target: SessionTarget): Promise<Session> {
  const result = await openSession(deps, target);
  if (result.kind !== 'open') throw new Error(`not open: ${result.phase}: ${result.text}`);
  return result.session;
}

export type FailedToOpen = Extract<OpenResult, { kind: 'failed' }>;

export async function notOpened(deps: OpenDeps, target: SessionTarget): Promise<FailedToOpen> {
  const result = await openSession(deps, target);
  if (result.kind === 'failed') return result;
  result.session.destroy();
  throw new Error('the session was opened');
}

export function mailOf(text = 'Subject: hi\r\n\r\nhello\r\n', changes: Partial<Mail> = {}): Mail {
  const data = Buffer.from(text, 'utf8');
  return {
    envelopeFrom: 'b+abc@rp.acme.test',
    recipients: ['ana@dest.test'],
    data: [data],
    size: data.length,
    smtpUtf8: false,
    eightBit: false,
    ...changes,
  };
}
