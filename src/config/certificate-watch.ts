/**
 * Takes over a certificate that was renewed on disk: programs that renew certificates write the files and may not signal us. The
 * files are read every minute, which costs less than watching every change of a folder, and works on every file system.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { certificateFacts } from './certificate-facts.ts';
import { readCertificate, type Certificate, type CertificateFiles } from './certificate.ts';

export interface CertificateState {
  file: string;
  /** PEM, the chain. */
  cert: string;
  /** The reason why the present files cannot be used; the certificate in force is an older one then. */
  fault: string | null;
}

export interface CertificateWatch {
  /** Looks every minute from now on, and calls `changed` with each certificate that is taken over. */
  start(changed: (certificate: Certificate) => void): void;
  /** Looks at the files now, and takes over what has changed. */
  look(): void;
  state(): CertificateState;
  stop(): void;
}

export interface WatchDeps {
  clock: Clock;
  log: Log;
  present: { file: string; certificate: Certificate };
  /** The files of the certificate that should be in force, or null if there are none. */
  files: () => CertificateFiles | null;
}

const EVERY_MS = 60_000;

/** A pair that cannot be used is logged once and left until it changes. */
export function watchCertificate({ clock, log, present, files }: WatchDeps): CertificateWatch {
  let timer: Timer | null = null;
  let changed: (certificate: Certificate) => void = () => undefined;
  let known = textOf(present.certificate);
  let state: CertificateState = { file: present.file, cert: present.certificate.cert, fault: null };
  /** When the certificate in force ends, in ms since the epoch; null once that is logged. */
  let endsAt: number | null = certificateFacts(state.cert).notAfter;

  function wait(): void {
    timer = clock.after(
      EVERY_MS,
      () => {
        look();
        tellExpired();
        wait();
      },
      { background: true },
    );
  }

  /** Logged once for a certificate: at the start, if it has expired already, or within a minute of its end. */
  function tellExpired(): void {
    if (endsAt === null || endsAt > clock.now()) return;
    log.warn(
      { event: 'certificate_expired', file: state.file, at: new Date(endsAt).toISOString() },
      'the certificate has expired: clients refuse TLS until it is renewed',
    );
    endsAt = null;
  }

  function look(): void {
    const named = files();
    if (named === null) return;
    let certificate: Certificate;
    try {
      certificate = readCertificate(named);
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      if (fault === state.fault) return;
      state = { ...state, fault };
      log.warn(
        { event: 'certificate_unusable', reason: fault },
        'the certificate has changed and cannot be used; the one before stays in force',
      );
      return;
    }
    state = { file: named.certFile, cert: certificate.cert, fault: null };
    if (textOf(certificate) === known) return;
    known = textOf(certificate);
    endsAt = certificateFacts(certificate.cert).notAfter;
    changed(certificate);
    log.info({ event: 'certificate_renewed' }, 'the certificate was read again');
  }

  return {
    start(run) {
      changed = run;
      tellExpired();
      wait();
    },
    look,
    state: () => state,
    stop() {
      timer?.cancel();
    },
  };
}

const textOf = ({ cert, key }: Certificate): string => cert + key;
