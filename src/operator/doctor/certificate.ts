/** Checks the certificate of the listeners: its dates, its names, and its issuer. */
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import { certificateNames } from '../../config/certificate.ts';
import type { Probes } from './probes.ts';
import { DAY_MS } from '../../base/time.ts';

const SOON_MS = 14 * DAY_MS;

export function certificate({ config, clock, machine }: Probes): Promise<readonly Verdict[]> {
  const facts = machine.certificate();
  if (facts.kind === 'none') return Promise.resolve([ok('a self-signed one is made at the first start')]);
  if (facts.kind === 'bad')
    return Promise.resolve([
      failed(
        facts.why,
        'Install the certificate as root: posthorn tls install --cert FILE --key FILE (docs/certificates.md), or correct `tls.certFile` and `tls.keyFile`.',
      ),
    ]);
  const now = clock.now();
  const { file, from, until, isOwn, isSelfSigned } = facts;
  const renewal = isOwn
    ? `Remove ${file} and its key and restart: a new one is made.`
    : 'Renew it (certbot renew), and see why its deploy hook (posthorn tls install, docs/certificates.md) has not run.';
  const faults: Verdict[] = [];
  if (until <= now) faults.push(failed(`${file} expired on ${day(until)}`, renewal));
  else if (until - now < SOON_MS) faults.push(warning(`${file} expires on ${day(until)}`, renewal));
  if (from > now)
    faults.push(failed(`${file} is good only from ${day(from)}`, 'Is the clock right? See the line of `clock`.'));
  for (const host of certificateNames(config))
    if (!facts.isFor(host))
      faults.push(
        failed(
          `${file} is not for ${host}`,
          `Get a certificate with the name ${host}, or correct \`smtp.hostname\` or \`http.publicUrl\`.`,
        ),
      );
  if (isSelfSigned)
    faults.push(
      warning(
        `${file} is signed by itself: mail programs that submit here must be told to trust it`,
        "Get one from a public authority such as Let's Encrypt, and run: posthorn tls install (docs/certificates.md). Mail between servers goes all the same.",
      ),
    );
  return Promise.resolve(orWell(faults, `${file} is good until ${day(until)}`));
}

const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
