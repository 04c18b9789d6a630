/** The sending addresses, for administrators: their pools, warm-up, block lists and pauses. */
import { filledIn, definedMembers, fieldText } from '../forms.ts';
import { adminGet, adminPost, move, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/settings/sources';
/** Most sites that are shown for a source, the most used first. */
const SHOWN_SITES = 50;

export function sourcePages(): Page[] {
  return [
    adminGet(WHERE, show),
    adminPost(`${WHERE}/unblock`, unblock),
    adminPost(`${WHERE}/pause`, pause),
    adminPost(`${WHERE}/release`, async (visit) => {
      await visit.ask('queue.release', { body: { id: visit.form.get('id') ?? '' } });
      return move(WHERE, 'Released: mail is sent from it again.');
    }),
  ];
}

async function show(visit: Visit): Promise<Shown> {
  const [{ data, nodes }, holds] = await Promise.all([visit.ask('queue.sources'), visit.ask('queue.holds')]);
  const rows = data.map((source) => ({
    ...source,
    hold: holds.data.find(({ scope, target }) => scope === 'source' && target === source.name) ?? null,
    sites: source.warm_up
      .map((site) => ({ ...site, isFull: site.cap !== null && site.sent >= site.cap }))
      .sort((a, b) => b.sent - a.sent)
      .slice(0, SHOWN_SITES),
  }));
  return view('sources', 'Addresses', {
    rows,
    isFleet: nodes.length > 1,
    isNobody: rows.every(({ delivers }) => !delivers),
    isSystem: rows.length > 0 && rows.every(({ name }) => name === null),
    warming: rows.filter(({ sites }) => sites.length > 0),
    blocks: rows.flatMap(({ name, node, blocks }) => blocks.map((block) => ({ ...block, name, node }))),
    entered: filledIn(visit.form),
  });
}

async function unblock(visit: Visit): Promise<Shown> {
  const source = fieldText(visit.form, 'source');
  const { unblocked } = await visit.ask('queue.unblock', { body: definedMembers({ source }) });
  const text = unblocked === 0 ? 'No site has refused it.' : 'Mail is sent from it again to the sites that refused it.';
  return move(WHERE, text);
}

async function pause(visit: Visit): Promise<Shown> {
  const { form } = visit;
  await visit.ask('queue.hold', {
    body: {
      source: form.get('source') ?? '',
      ...definedMembers({ note: fieldText(form, 'note') }),
    },
  });
  return move(WHERE, 'Paused: mail is sent from the other sources of its pool, and waits if there is none.');
}
