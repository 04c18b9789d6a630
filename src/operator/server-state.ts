/** Operations about the installation: its certificate, its backups and its books. */
import { balance } from '../messages/store/books.ts';
import { backupState } from '../backup/folder.ts';
import { isPostgresUrl } from '../base/postgres-url.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import { certificateFacts, type CertificateState } from '../config/certificate.ts';
import { serverRoute, storeRoute } from './server-route.ts';

export const serverStateOperations = {
  /** Balances the books. */
  books: storeRoute({
    async run({ db }) {
      return await balance(db.reader);
    },
  }),
  /** Reports on the backups, for the dashboard; null on PostgreSQL, whose backups are its own. `posthorn backup create` makes them, in a separate process. */
  'backup.state': storeRoute({
    async run({ config, clock }) {
      if (isPostgresUrl(config.storage.url)) return null;
      const state = await backupState(config.backup.dir, clock.now());
      const head = { object: 'backup_state' as const, dir: state.dir };
      if (state.kind === 'unreadable') return { ...head, count: 0, newest: null, error: state.text };
      const { count, newest } = state;
      const record =
        newest === null
          ? null
          : {
              name: newest.name,
              created_at: rfc3339(newest.at),
              bytes: newest.bytes,
              keys: newest.hasKeys,
            };
      return { ...head, count, newest: record, error: null };
    },
  }),
  /** Reads the files of the certificate now. The server itself notes a change in the audit. */
  'tls.reload': serverRoute({
    run({ clock, certificate }) {
      certificate.look();
      return Promise.resolve(certificateRecord(certificate.state(), clock.now()));
    },
  }),
};

/** `error`: the present files cannot be used, and this certificate is an older one. */
function certificateRecord({ file, cert, fault }: CertificateState, now: number) {
  const { names, issuer, isSelfSigned, notBefore, notAfter } = certificateFacts(cert);
  return {
    object: 'certificate' as const,
    file,
    names,
    issuer,
    self_signed: isSelfSigned,
    not_before: rfc3339(notBefore),
    not_after: rfc3339(notAfter),
    days_left: Math.floor((notAfter - now) / DAY_MS),
    error: fault,
  };
}
