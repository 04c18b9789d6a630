/** What listens for mail: submission by STARTTLS and by TLS from the start. Built, started and stopped here. */
import type { Bell } from '../base/bell.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { createListener, type Listener, type ListenerLimits } from './listener.ts';
import { submissionHandlers, type SubmissionDeps, type SubmissionSettings, type Submitter } from './submission.ts';
import { createSubmissionReader } from './submission-reader.ts';

export interface Certificate {
  /** PEM. */
  cert: string;
  key: string;
}

export interface InboundDeps extends Omit<SubmissionDeps, 'reader'> {
  clock: Clock;
  log: Log;
  /** Rings when a key was revoked or changed. */
  keyChanges: Bell;
}

export interface InboundSettings {
  certificate: Certificate;
  submission: SubmissionSettings & { host: string; size: number; start: Place; tls: Place };
  limits?: Partial<ListenerLimits>;
}

/** A port, and whether somebody chose it: one that nobody chose and that is in use is done without. */
export interface Place {
  port: number;
  isChosen: boolean;
}

export interface Inbound {
  /** Rejects where a port cannot be had. */
  start(): Promise<InboundPorts>;
  setCertificate(certificate: Certificate): void;
  stop(): Promise<void>;
}

export interface InboundPorts {
  /** Null where the port is in use and nobody chose it. */
  submission: number | null;
  submissions: number | null;
}

export function createInbound(deps: InboundDeps, settings: InboundSettings): Inbound {
  const { clock, log } = deps;
  const reader = createSubmissionReader({ clock });
  const { submission, certificate } = settings;
  const submit = submissionHandlers({ ...deps, reader }, submission);
  const submitters = ({ port }: Place, isSecure: boolean): Listener<Submitter> =>
    createListener(
      { clock, log },
      {
        host: submission.host,
        port,
        hostname: submission.hostname,
        isSecure,
        certificate,
        size: submission.size,
        keepBytes: submission.size,
        maxRecipients: submission.recipients,
        ...(settings.limits === undefined ? {} : { limits: settings.limits }),
      },
      submit,
    );
  const listeners = [submitters(submission.start, false), submitters(submission.tls, true)] as const;
  const places = [submission.start, submission.tls] as const;
  let unlisten: (() => void) | null = null;

  /** Sessions of a key that is no longer good end at once. */
  function endRevoked(): void {
    const isOver = async ({ token }: Submitter): Promise<boolean> => {
      if (token === null) return false;
      const found = await deps.authenticate(token);
      if (found.kind === 'unknown') return true;
      const { revokedAt, expiresAt } = found.caller;
      return [revokedAt, expiresAt].some((at) => at !== null && at <= clock.now());
    };
    for (const listener of listeners)
      void listener.endWhere(isOver).catch((error: unknown) => {
        log.error({ event: 'smtp_failed', err: error }, 'sessions of a revoked key could not be looked at');
      });
  }

  return {
    async start() {
      const ports: (number | null)[] = [];
      for (const [at, listener] of listeners.entries()) ports.push(await listenAt(log, listener, places[at]));
      unlisten = deps.keyChanges.listen(endRevoked);
      const [plain = null, secure = null] = ports;
      return { submission: plain, submissions: secure };
    },
    setCertificate(renewed) {
      for (const listener of listeners) listener.setCertificate(renewed);
    },
    async stop() {
      unlisten?.();
      await Promise.all(listeners.map((listener) => listener.close()));
      await reader.close();
    },
  };
}

async function listenAt(log: Log, listener: Listener<unknown>, place: Place | undefined): Promise<number | null> {
  try {
    return await listener.listen();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (place?.isChosen !== false || (code !== 'EADDRINUSE' && code !== 'EACCES')) throw error;
    log.warn(
      { event: 'smtp_port_taken', port: place.port, err: error },
      `port ${String(place.port)} cannot be had: nobody can submit mail there; smtp.submission.port and .tlsPort choose others`,
    );
    return null;
  }
}
