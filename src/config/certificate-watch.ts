/**
 * Takes over a certificate that was renewed on disk: programs that renew certificates write the files and may not signal us. The
 * files are read every minute, which costs less than watching every change of a folder, and works on every file system.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { readCertificate, type Certificate } from './certificate.ts';

export interface CertificateWatch {
  stop(): void;
}

export interface WatchDeps {
  clock: Clock;
  log: Log;
  /** The certificate in force, or null where none is named. */
  files: () => { readonly certFile: string; readonly keyFile: string } | null;
  changed: (certificate: Certificate) => void;
}

const EVERY_MS = 60_000;

/** Takes the present files as known. A pair that cannot be used is logged once and left until it changes. */
export function watchCertificate({ clock, log, files, changed }: WatchDeps): CertificateWatch {
  let timer: Timer;
  let known = look();

  /** Returns the pair, and a text of it or of the error by which two looks are compared. */
  function look(): { text: string; certificate: Certificate | null } {
    const named = files();
    if (named === null) return { text: '', certificate: null };
    try {
      const certificate = readCertificate(named);
      return { text: certificate.cert + certificate.key, certificate };
    } catch (error) {
      return { text: error instanceof Error ? error.message : String(error), certificate: null };
    }
  }

  function turn(): void {
    const seen = look();
    if (seen.text !== known.text) {
      known = seen;
      if (seen.certificate !== null) {
        changed(seen.certificate);
        log.info({ event: 'certificate_renewed' }, 'the certificate was read again');
      } else if (seen.text !== '')
        log.warn(
          { event: 'certificate_unusable', reason: seen.text },
          'the certificate has changed and cannot be used; the one before stays in force',
        );
    }
    timer = clock.after(EVERY_MS, turn, { background: true });
  }

  timer = clock.after(EVERY_MS, turn, { background: true });
  return {
    stop() {
      timer.cancel();
    },
  };
}
