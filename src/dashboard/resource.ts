/** Pages of resources: a page is what it loads and a view; the forms that the view declares (view-forms.ts) get their addresses from here. */
import Handlebars from 'handlebars';
import type { Problem } from '../base/problem.ts';
import { refusedByRole } from '../keys/roles.ts';
import type { Scope } from '../keys/scopes.ts';
import type { DashboardDeps } from './deps.ts';
import {
  adminGet,
  adminPost,
  get,
  move,
  needs,
  post,
  view,
  withFault,
  type Page,
  type Shown,
  type View,
  type Visit,
} from './page.ts';
import { provenPassword } from './pages/proof.ts';
import { refuseStale } from './stale-forms.ts';
import {
  addressFor,
  bodyOf,
  changeable,
  formsOf,
  inputsOf,
  isGuarded,
  type Reads,
  type Refused,
  type ViewForm,
} from './view-forms.ts';
import { viewSources } from './views.ts';
import { helpers } from './words.ts';

/** The records that a page may show: one, or rows. */
interface Loaded {
  record?: object;
  rows?: readonly object[];
}

export interface Resource<Data extends object> {
  path: `/${string}`;
  view: string;
  title: string | ((data: Data) => string);
  who?: 'admin';
  /** The scope that the page needs, if what it loads does not ask for one. */
  scope?: Scope;
  load(visit: Visit): Promise<Data> | Data;
  /** Fields that are read in another way than by their kind. */
  reads?: Reads;
  /** Forms, by their addresses, that do more than their operation, or lead elsewhere. `show` returns the page with more on it. */
  acts?: Readonly<
    Record<string, (visit: Visit, body: object, show: (more: object) => Promise<View>) => Promise<Shown | string>>
  >;
}

export function resource<Data extends object>(deps: DashboardDeps, one: Resource<Data>): Page[] {
  const { path, who, scope, title, reads = {}, acts = {} } = one;
  const [onGet, onPost] = who === 'admin' ? [adminGet, adminPost] : [get, post];
  const inputs = inputsOf(deps.routes);

  async function show(visit: Visit, refused: Refused | null, more: object = {}): Promise<View> {
    const data = await one.load(visit);
    const { params } = visit;
    const name = typeof title === 'string' ? title : title(data);
    return view(one.view, name, { ...(data as object), ...more, params, refused, fault: refused?.fault ?? null });
  }

  const send =
    (form: ViewForm) =>
    async (visit: Visit): Promise<Shown> => {
      const { to, operation, words } = form;
      const { params } = visit;
      const id = params['id'] ?? '';
      const { scope: needed } = inputs(operation);
      if (needed !== null && !visit.may(needed)) throw refusedByRole([needed]);
      if (words['proof'] === true) await provenPassword(deps, visit);
      if (isGuarded(form)) refuseStale(visit.form, changeable(form, recordIn(await one.load(visit), id)));
      const named = typeof words['id'] === 'string' ? { [words['id']]: id } : {};
      const body = { ...bodyOf(form, inputs, visit, reads), ...named };
      const done = await acts[to]?.(visit, body, (more) => show(visit, null, more));
      if (done !== undefined && typeof done !== 'string') return done;
      const answer = done ?? (await visit.ask(operation as never, { params, body } as never));
      return move(
        addressFor(textOf(words['next'] ?? path, answer), id),
        done ?? textOf(words['said'] ?? 'Done.', answer),
      );
    };

  const page = onGet(path, (visit) => show(visit, null));
  return [
    scope === undefined ? page : needs(scope, page),
    ...formsOf(one.view, viewSources()).map((form) =>
      onPost(
        form.to,
        withFault(send(form), (visit: Visit, fault: Problem) =>
          show(visit, { to: form.to, id: visit.params['id'] ?? '', form: visit.form, fault }),
        ),
      ),
    ),
  ];
}

const recordIn = ({ record, rows }: Loaded, id: string): object =>
  record ?? rows?.find((row) => 'id' in row && row.id === id) ?? {};

/** Returns the words of a form about the operation's answer. */
const textOf = (words: unknown, answer: unknown): string =>
  Handlebars.compile(words, { noEscape: true })(answer, { helpers: { ...helpers } });
