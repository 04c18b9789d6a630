/** The checks of `posthorn doctor`, for administrators. */
import { adminGet, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/doctor';

export function doctorPages(): Page[] {
  return [adminGet(WHERE, show)];
}

/** The checks take some seconds, since they use DNS and the network: the page comes first, and `?run` waits for them. */
async function show(visit: Visit): Promise<Shown> {
  if (!visit.query.has('run')) return view('doctor', 'Doctor', { findings: null });
  const { data } = await visit.operate('doctor', {});
  const worst = { failed: 0, warning: 1, ok: 2 };
  const findings = [...data].sort((a, b) => worst[a.status] - worst[b.status]);
  const count = (status: keyof typeof worst): number => data.filter((one) => one.status === status).length;
  return view('doctor', 'Doctor', { findings, failed: count('failed'), warnings: count('warning'), well: count('ok') });
}
