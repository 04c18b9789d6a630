/** Correcting past bounces by the operator's own rules: first counted, then done where that is confirmed. */
import { pluralize } from '../../base/pluralize.ts';
import type { Problem } from '../../base/problem.ts';
import type { ResultOf } from '../../operator/operations.ts';
import { fieldText, requireHours } from '../forms.ts';
import { adminGet, adminPost, move, view, withFault, type Page, type Shown, type View, type Visit } from '../page.ts';

const WHERE = '/queue/reclassify';
/** The time that the command line takes where none is given. */
const USUAL_HOURS = '24';

export function reclassifyPages(): Page[] {
  return [
    adminGet(WHERE, () => show()),
    adminPost(`${WHERE}/count`, withFault(count, again)),
    adminPost(WHERE, withFault(correct, again)),
  ];
}

type Counted = ResultOf<'bounces.reclassify'> & { found: boolean };

const show = (hours = USUAL_HOURS, more: { fault?: Problem; counted?: Counted } = {}): View =>
  view('reclassify', 'Past bounces', { hours, ...more });

const again = ({ form }: Visit, fault: Problem): View => show(fieldText(form, 'hours') ?? '', { fault });

/** Shows the count once: a reload of that page does not go through all of them again. */
async function count(visit: Visit): Promise<Shown> {
  const result = await visit.operate('bounces.reclassify', { past: requireHours(visit.form, 'hours'), dry_run: true });
  const counted = { ...result, found: result.attempts + result.reports > 0 };
  return { kind: 'once', page: show(fieldText(visit.form, 'hours'), { counted }) };
}

async function correct(visit: Visit): Promise<Shown> {
  const { attempts, reports, unsuppressed } = await visit.operate('bounces.reclassify', {
    past: requireHours(visit.form, 'hours'),
    dry_run: false,
  });
  return move(
    WHERE,
    `${pluralize(attempts, 'attempt')} and ${pluralize(reports, 'bounce mail')} are reclassified; ${pluralize(unsuppressed, 'address', 'addresses')} left the suppression list.`,
  );
}
