/** The checks of `posthorn doctor`, for administrators. */
import type { Finding } from '../../operator/doctor/doctor.ts';
import { adminGet, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/doctor';

export const doctorPages: readonly Page[] = [adminGet(WHERE, show)];

/** The checks take some seconds, since they use DNS and the network: the page comes first, and `?run` waits for them. */
async function show(visit: Visit): Promise<Shown> {
  if (!visit.query.has('run')) return view('doctor', 'Doctor', { findings: null });
  const { data } = await visit.ask('doctor');
  const of = (status: Finding['status']): object[] =>
    data.filter((one) => one.status === status).map((one) => onPage(one, visit.account.id));
  const [failed, warnings, good] = [of('failed'), of('warning'), of('ok')];
  return view('doctor', 'Doctor', {
    findings: true,
    bad: [...failed, ...warnings],
    good,
    failed: failed.length,
    warnings: warnings.length,
    well: good.length,
  });
}

const places = { domain: '/domains/', webhook: '/webhooks/' };

/** Pages show one account, so what belongs to another one than `accountId` has no link. */
const onPage = (finding: Finding, accountId: string): object => ({
  ...finding,
  href:
    finding.about?.account_id !== accountId
      ? null
      : `${places[finding.about.object]}${encodeURIComponent(finding.about.id)}`,
});
