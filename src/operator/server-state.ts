/** Operations about the running server itself: its ports for mail and its certificate. */
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import { certificateFacts } from '../config/certificate-facts.ts';
import type { CertificateState } from '../config/certificate-watch.ts';
import type { MailPortState } from '../inbound/mail-port.ts';
import { serverRoute } from './server-route.ts';

export const serverStateOperations = {
  /** Shows which ports are shut and when the certificate ends, so that the dashboard can name what needs an operator. */
  'server.state': serverRoute({
    run: ({ clock, certificate, ...deps }) =>
      Promise.resolve({
        object: 'server_state' as const,
        listeners: deps.listeners().map(listenerRecord),
        certificate: certificateRecord(certificate.state(), clock.now()),
      }),
  }),
  /** Reads the files of the certificate now. The server itself notes a change in the audit. */
  'tls.reload': serverRoute({
    run({ clock, certificate }) {
      certificate.look();
      return Promise.resolve(certificateRecord(certificate.state(), clock.now()));
    },
  }),
};

/** `holder` names the program that has the port, if this machine tells. */
const listenerRecord = ({ name, host, port, open, fault }: MailPortState) => ({
  name,
  host,
  port: open ?? port,
  open: open !== null,
  error: fault?.code ?? null,
  holder: fault?.holder ?? null,
  since: fault === null ? null : rfc3339(fault.since),
});

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
