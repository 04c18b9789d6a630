/** Figures of the running server itself: its ports for mail, and its certificate. */
import { certificateFacts } from '../../config/certificate-facts.ts';
import type { CertificateState } from '../../config/certificate-watch.ts';
import { gauge, type Family } from './exposition.ts';
import type { OperatorDeps } from '../deps.ts';

export interface ServerFigureDeps extends Pick<OperatorDeps, 'listeners'> {
  /** The certificate in force. */
  certificate: () => CertificateState;
}

export function serverFigures({ listeners, certificate }: ServerFigureDeps): Family[] {
  return [
    gauge(
      'posthorn_listener_up',
      'Whether the port for mail is open; 0 while another program has it.',
      listeners().map(({ name, open }) => ({ labels: { listener: name }, value: open === null ? 0 : 1 })),
    ),
    gauge(
      'posthorn_certificate_not_after_seconds',
      'When the certificate in force expires, Unix time.',
      certificateFacts(certificate().cert).notAfter / 1000,
    ),
  ];
}
