/** The suppression list: search, adding one or many, removal with a warning, download as CSV. */
import { csvLine, CsvFault, readCsv } from '../../base/csv.ts';
import { Problem } from '../../base/problem.ts';
import { suppressionReasons } from '../../suppressions/suppression.ts';
import { filledIn, definedMembers, fieldNumber, fieldText } from '../forms.ts';
import { chipsOf, linkTo, pagerOf } from '../links.ts';
import { get, move, post, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/suppressions';
const ROWS = 50;
const MOST_PAGES = 100;
const MOST_IMPORTED = 1000;
const MOST_DAYS = 3650;

interface Entry {
  email: string;
  reason: string;
  scope: string;
  created_at: string;
  created_by: string;
  note: string | null;
  expires_at: string | null;
}

interface EntryList {
  data: Entry[];
  next_cursor: string | null;
  previous_cursor: string | null;
}

export function suppressionPages(): Page[] {
  return [
    get(WHERE, (visit) => list(visit, null)),
    post(WHERE, add),
    post(`${WHERE}/import`, addMany),
    post(`${WHERE}/remove`, remove),
    get(`${WHERE}/export`, exported),
  ];
}

async function list(visit: Visit, fault: Problem | null): Promise<Shown> {
  const { query, form } = visit;
  const q = (query.get('q') ?? '').trim();
  const entries = await found(visit, q);
  return view(
    'suppressions',
    'Suppressions',
    {
      q,
      isLookUp: q !== '',
      rows: entries.data.map((entry) => ({ ...entry, isComplaint: entry.reason === 'complaint' })),
      chips: chipsOf(
        WHERE,
        query,
        'reason',
        suppressionReasons.map((one) => [one, one.replace('_', ' ')] as const),
      ),
      pager: pagerOf(WHERE, query, entries),
      streams: (await visit.ask<{ data: { slug: string }[] }>('listStreams', { query: { limit: '100' } })).data,
      csv: linkTo(`${WHERE}/export`, query),
      fault,
      entered: filledIn(form),
    },
    fault?.status ?? 200,
  );
}

async function found(visit: Visit, q: string): Promise<EntryList> {
  const { query } = visit;
  if (q === '') {
    const asked = {
      reason: query.get('reason'),
      after: query.get('after'),
      before: query.get('before'),
      limit: String(ROWS),
    };
    return await visit.ask<EntryList>('listSuppressions', { query: asked });
  }
  try {
    const entry = await visit.ask<Entry>('getSuppression', { params: { email: q } });
    return { data: [entry], next_cursor: null, previous_cursor: null };
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 500) throw error;
    return { data: [], next_cursor: null, previous_cursor: null };
  }
}

async function add(visit: Visit): Promise<Shown> {
  const { form } = visit;
  try {
    const days = fieldNumber(form, 'days');
    if (days !== undefined && !(Number.isInteger(days) && days > 0 && days <= MOST_DAYS))
      throw new Problem('invalid_field', `days: a whole number from 1 to ${String(MOST_DAYS)}`, { field: 'days' });
    const body = definedMembers({
      email: form.get('email')?.trim() ?? '',
      note: fieldText(form, 'note'),
      stream: fieldText(form, 'stream'),
      expires_at: days === undefined ? undefined : new Date(visit.now + days * 86_400_000).toISOString(),
    });
    const { email } = await visit.ask<Entry>('createSuppression', { body });
    return move(linkTo(WHERE, new URLSearchParams({ q: email })), `${email} is not mailed.`);
  } catch (error) {
    if (error instanceof Problem) return list(visit, error);
    throw error;
  }
}

const SHOWN_WRONG = 3;

/** Names the first lines that are not addresses. */
const named = (wrong: readonly string[]): string =>
  wrong.length === 0
    ? ''
    : `; no address: ${wrong
        .slice(0, SHOWN_WRONG)
        .map((one) => one.slice(0, 60))
        .join(', ')}${wrong.length > SHOWN_WRONG ? ` and ${String(wrong.length - SHOWN_WRONG)} more` : ''}`;

/** Reads the first column of CSV, or one address a line. */
async function addMany(visit: Visit): Promise<Shown> {
  try {
    const emails = firstColumn(visit.form.get('emails') ?? '');
    const { data } = await visit.ask<{ data: { result: string }[] }>('createSuppression', { body: { emails } });
    const count = (result: string): number => data.filter((one) => one.result === result).length;
    const wrong = emails.filter((_, place) => data[place]?.result === 'rejected');
    return move(
      WHERE,
      `${String(count('created'))} added, ${String(count('existing'))} on the list already${named(wrong)}.`,
    );
  } catch (error) {
    if (error instanceof Problem) return list(visit, error);
    throw error;
  }
}

/** Returns the first column of a table, or all addresses of a line, as mail programs copy them. */
function addressesIn(fields: readonly string[]): string[] {
  const texts = fields.map((one) => one.trim()).filter((one) => one !== '');
  return texts.every((one) => one.includes('@')) ? texts : [(fields[0] ?? '').trim()];
}

function firstColumn(text: string): string[] {
  const reader = readCsv();
  let emails: string[];
  try {
    emails = [...reader.push(text), ...reader.end()].flatMap(({ fields }) => addressesIn(fields));
  } catch (error) {
    if (error instanceof CsvFault) throw new Problem('invalid_field', error.message, { field: 'emails' });
    throw error;
  }
  const addresses = emails.filter((one, place) => one !== '' && !(place === 0 && /^e-?mail$/i.test(one)));
  if (addresses.length > MOST_IMPORTED)
    throw new Problem(
      'too_many_items',
      `at most ${String(MOST_IMPORTED)} at once; for more use \`posthorn suppressions import\``,
      { field: 'emails' },
    );
  return addresses;
}

async function remove(visit: Visit): Promise<Shown> {
  const { form } = visit;
  const email = form.get('email') ?? '';
  const scope = form.get('scope') ?? '';
  const stream = scope.startsWith('stream:') ? scope.slice(7) : null;
  const query = { stream, force: form.get('force') === null ? null : 'true' };
  await visit.ask('deleteSuppression', { params: { email }, query });
  return move(WHERE, `${email} is mailed again.`);
}

async function exported(visit: Visit): Promise<Shown> {
  const lines = ['email,reason,scope,created_at,created_by,expires_at,note'];
  let after: string | null = null;
  for (let page = 0; page < MOST_PAGES; page++) {
    const query: Record<string, string | null> = { reason: visit.query.get('reason'), limit: '100', after };
    const { data, next_cursor: next } = await visit.ask<EntryList>('listSuppressions', { query });
    for (const { email, reason, scope, created_at, created_by, expires_at, note } of data)
      lines.push(csvLine([email, reason, scope, created_at, created_by, expires_at, note]));
    if (next === null) break;
    after = next;
  }
  return { kind: 'file', body: `${lines.join('\n')}\n`, type: 'text/csv; charset=utf-8', name: 'suppressions.csv' };
}
