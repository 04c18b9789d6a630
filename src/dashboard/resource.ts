/** Pages of resources: a page is what it loads and a view; the forms that the view declares (view-forms.ts) get their addresses from here. */
import Handlebars from 'handlebars';
import type { Problem } from '../base/problem.ts';
import { refusedByRole } from '../keys/roles.ts';
import { refuseStale } from './forms.ts';
import { adminGet, adminPost, get, move, post, view, type Page, type Shown, type View, type Visit } from './page.ts';
import { provenPassword } from './pages/sign-in.ts';
import { addressFor, bodyOf, changeable, formsOf, isGuarded, type Reads, type ViewForm } from './view-forms.ts';
import { viewSources } from './views.ts';
import { helpers } from './words.ts';

interface Loaded {
  record?: object;
  rows?: readonly object[];
}

export interface Resource<Data extends object> extends Pick<Page, 'scope'> {
  path: `/${string}`;
  view: string;
  title: string | ((data: Data) => string);
  who?: 'admin';
  load(visit: Visit): Promise<Data> | Data;
  /** Fields that are read in another way than by their kind. */
  reads?: Reads;
  /** Forms, by their addresses, that do more than their operation, or lead elsewhere. `show` returns the page with more on it. */
  acts?: Readonly<
    Record<string, (visit: Visit, body: object, show: (more: object) => Promise<View>) => Promise<Shown | string>>
  >;
}

export function resource<Data extends object>(one: Resource<Data>): Page[] {
  const { path, who, scope, title, reads = {}, acts = {} } = one;
  const [onGet, onPost] = who === 'admin' ? [adminGet, adminPost] : [get, post];

  /** `of` is a form that was refused. */
  async function show(visit: Visit, more: object = {}, of?: ViewForm, fault: Problem | null = null): Promise<View> {
    const data = await one.load(visit);
    const { params, form } = visit;
    const name = typeof title === 'string' ? title : title(data);
    const refused = of === undefined || fault === null ? null : { to: of.to, id: params['id'] ?? '', form, fault };
    return view(one.view, name, { ...(data as object), ...more, params, refused, fault });
  }

  async function send(form: ViewForm, visit: Visit): Promise<Shown> {
    const { to, operation, words } = form;
    const { params, server } = visit;
    const id = params['id'] ?? '';
    const { scope: needed } = server.inputs(operation);
    if (needed !== null && !visit.may(needed)) throw refusedByRole([needed]);
    if (words['proof'] === true) await provenPassword(visit);
    if (isGuarded(form)) refuseStale(visit.form, changeable(form, recordIn(await one.load(visit), id)));
    const named = typeof words['id'] === 'string' ? { [words['id']]: id } : {};
    const body = { ...bodyOf(form, server.inputs, visit, reads), ...named };
    const done = await acts[to]?.(visit, body, (more) => show(visit, more));
    if (done !== undefined && typeof done !== 'string') return done;
    const answer = done ?? (await visit.ask(operation as never, { params, body } as never));
    return move(
      addressFor(textOf(words['next'] ?? path, answer), id),
      done ?? textOf(words['said'] ?? 'Done.', answer),
    );
  }

  return [
    onGet(path, (visit) => show(visit), scope === undefined ? {} : { scope }),
    ...formsOf(one.view, viewSources).map((form) =>
      onPost(form.to, (visit) => send(form, visit), {
        again(visit, fault) {
          // A member who lacks the right for a form may lack it for its page, too.
          if (fault.code === 'insufficient_scope') throw fault;
          return show(visit, {}, form, fault);
        },
      }),
    ),
  ];
}

const recordIn = ({ record, rows }: Loaded, id: string): object =>
  record ?? rows?.find((row) => 'id' in row && row.id === id) ?? {};

/** Returns the words of a form about the operation's answer. */
const textOf = (words: unknown, answer: unknown): string =>
  Handlebars.compile(words, { noEscape: true })(answer, { helpers: { ...helpers } });
