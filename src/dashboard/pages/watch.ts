/** SMTP sessions live, for administrators: commands and replies of a lane or about a message, never content. A script polls; a link does the same. */
import type { ResultOf } from '../../operator/routes.ts';
import { definedMembers, fieldText } from '../forms.ts';
import { linkTo } from '../links.ts';
import { adminGet, adminPost, move, nullAt, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/queue/watch';

export const watchPages: readonly Page[] = [adminGet(WHERE, show), adminPost(WHERE, begin)];

/** A form begins a watch, which then has its own address, so that a reload shows its lines and begins no other. */
async function begin(visit: Visit): Promise<Shown> {
  const [lane, messageId] = [fieldText(visit.form, 'lane'), fieldText(visit.form, 'message_id')];
  const { watch } = await visit.ask('queue.watch', { body: definedMembers({ lane, message_id: messageId }) });
  const changes = { lane: lane ?? null, message_id: messageId ?? null, watch: String(watch) };
  return move(linkTo(WHERE, {}, changes));
}

async function show(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const [lane, messageId, watch] = [query.get('lane') ?? '', query.get('message_id') ?? '', query.get('watch')];
  const after = query.get('position') ?? '';
  const page = watch === null ? null : await linesOf(visit, Number(watch), after);
  const here = linkTo(WHERE, query, { position: null });
  // The page itself says then that the watch has ended: what a poll gets is put among its lines.
  if (watch !== null && page === null && visit.isPoll) return move(here);
  const data = {
    lane,
    messageId,
    what: lane === '' ? messageId : lane,
    lines: (page?.data ?? []).map((line) => ({ ...line, level: levelOf(line) })),
    lost: page?.lost ?? 0,
    nodes: page === null || page.nodes.length < 2 ? [] : page.nodes,
    isOn: page !== null,
    isOver: watch !== null && page === null,
    here,
    more: page === null ? null : linkTo(WHERE, query, { position: page.position }),
    isBegin: after === '',
  };
  return view('watch', 'On the wire', data);
}

type Lines = ResultOf<'queue.watch'>;

/** Returns null if the watch has ended: its page was closed for a minute, or the server was restarted. */
const linesOf = (visit: Visit, watch: number, after: string): Promise<Lines | null> =>
  nullAt('not_found', () => visit.ask('queue.watch', { body: { watch, after } }));

/** Meaning of a reply's first digit (RFC 5321 section 4.2.1). */
function levelOf({ side, text }: Lines['data'][number]): 'red' | 'amber' | '' {
  if (side === '>') return '';
  return text.startsWith('5') ? 'red' : text.startsWith('4') ? 'amber' : '';
}
