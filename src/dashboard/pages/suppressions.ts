/** The suppression list: search, adding one or many, removal with a warning, download as CSV. */
import { Problem, invalid } from '../../base/problem.ts';
import { DAY_MS } from '../../base/time.ts';
import type { Suppression } from '../../client/types.ts';
import { parseMailbox } from '../../mail/address.ts';
import { suppressionReasons } from '../../storage/tables.ts';
import { importCsv, type Imported } from '../../suppressions/suppression-csv.ts';
import { fieldNumber, fieldText } from '../forms.ts';
import { filtersOf } from '../filters.ts';
import { exportsOf } from './exports.ts';
import { chipsOf, linkTo, pageOf, pagerOf, type Cursors } from '../links.ts';
import { move, nullAt, type Shown, type Visit } from '../page.ts';
import { resource } from '../resource.ts';
import { wordsOf } from '../words.ts';

const WHERE = '/suppressions';
const MOST_DAYS = 3650;

export const suppressionPages = resource({
  path: WHERE,
  view: 'suppressions',
  title: 'Suppressions',
  load,
  reads: { days: endIn },
  acts: {
    async [WHERE](visit, body) {
      await visit.ask('createSuppression', { body });
      const email = visit.form.get('email')?.trim() ?? '';
      return move(linkTo(WHERE, { q: email }), `${email} is not mailed.`);
    },
    [`${WHERE}/import`]: addMany,
    [`${WHERE}/remove`]: remove,
  },
});

async function load(visit: Visit) {
  const { query } = visit;
  const q = (query.get('q') ?? '').trim();
  const parsed = parseMailbox(q, { smtputf8: true });
  const entries = await found(visit, q, parsed.kind === 'ok');
  const streams = await visit.ask('listStreams', { query: { limit: '100' } });
  return {
    q,
    ...filtersOf(
      WHERE,
      query,
      [
        {
          name: 'q',
          label: 'Look up an address',
          isFirst: true,
          type: 'search',
          most: 1000,
          placeholder: 'ana@example.net',
        },
      ],
      { button: 'Look up' },
    ),
    isLookUp: q !== '',
    // Mail goes to no domain without a point: `ana@example` is the beginning of an address.
    isWhole: parsed.kind === 'ok' && /@.*\./.test(parsed.mailbox.address),
    rows: entries.data,
    chips: chipsOf(
      WHERE,
      query,
      'reason',
      suppressionReasons.map((one) => [one, one.replace('_', ' ')] as const),
    ),
    pager: pagerOf(WHERE, query, entries),
    scopesOfMail: ['=all mail', ...streams.data.map(({ slug }) => `${slug}=stream ${slug}`)],
    export: exportsOf('suppressions', q === '' ? { reason: query.get('reason') } : { email: q }),
  };
}

/** Returns the entries of the address in all scopes, or of the list; none for a text that is not an address. */
async function found(visit: Visit, q: string, isAddress: boolean): Promise<Cursors & { data: Suppression[] }> {
  const { query } = visit;
  if (q !== '' && !isAddress) return { data: [], next_cursor: null, previous_cursor: null };
  const wanted = q === '' ? { reason: query.get('reason') } : { email: q };
  return await visit.ask('listSuppressions', { query: { ...wanted, ...pageOf(query) } });
}

/** Reads after how many days an entry ends. */
function endIn({ form, now }: Visit): object {
  const days = fieldNumber(form, 'days');
  if (days === undefined) return {};
  if (!(Number.isInteger(days) && days > 0 && days <= MOST_DAYS))
    throw invalid('days', `days: a whole number from 1 to ${String(MOST_DAYS)}`);
  return { expires_at: new Date(now + days * DAY_MS).toISOString() };
}

const SHOWN_WRONG = 3;

/** Names the first rejected addresses, and says why the first one was rejected. */
function rejectedIn({ rejected }: Imported): string {
  if (rejected.length === 0) return '';
  const names = rejected.slice(0, SHOWN_WRONG).map(({ email }) => email.slice(0, 60));
  const more = rejected.length > SHOWN_WRONG ? ` and ${String(rejected.length - SHOWN_WRONG)} more` : '';
  return `; rejected: ${names.join(', ')}${more} (line ${String(rejected[0]?.line)}: ${rejected[0]?.why ?? ''})`;
}

/** Adds the entries of a CSV export, or plain addresses. */
async function addMany(visit: Visit, _: object, show: (more: object) => Promise<Shown>): Promise<Shown | string> {
  const isPreview = visit.form.has('preview');
  const emails = visit.form.get('emails') ?? '';
  const imported = await importCsv([emails], {
    reason: 'manual',
    stream: null,
    add: isPreview
      ? null
      : (entries) => visit.ask('suppressions.import', { body: { account: visit.account.id, entries } }),
  }).catch((error: unknown) => {
    throw error instanceof Problem ? new Problem(error.code, error.message, { field: 'emails' }) : error;
  });
  const { created, existing, by_reason: counts } = imported;
  if (!isPreview) return `${String(created)} added, ${String(existing)} on the list already${rejectedIn(imported)}.`;
  const reasons = Object.entries(counts).map(([reason, count]) => `${wordsOf(reason)} ${String(count)}`);
  const preview = `${String(created)} read (${reasons.join(', ')})${rejectedIn(imported)}. Nothing is added yet.`;
  return await show({ emails, preview });
}

async function remove(visit: Visit): Promise<string> {
  const { form } = visit;
  const email = form.get('email') ?? '';
  const scope = form.get('scope') ?? '';
  const of = scope.startsWith('stream:') ? { stream: scope.slice(7) } : { scope };
  const query = { ...of, force: form.get('force') === null ? null : 'true', note: fieldText(form, 'note') };
  await visit.ask('deleteSuppression', { params: { email }, query });
  const other = await nullAt('not_found', () => visit.ask('getSuppression', { params: { email } }));
  const still = (of: string): string => `The entry is removed. ${email} is still on the list, for ${of}.`;
  if (other === null) return `${email} is mailed again.`;
  return still(other.scope === 'account' ? 'all mail' : `the ${wordsOf(other.scope)}`);
}
