/** One declaration for each page: path, who may see it, handler. It gets the visit, calls operations, and shows, without the request itself. */
import type { Readable } from 'node:stream';
import { Problem } from '../base/problem.ts';
import type { Operations } from '../client/types.ts';
import type { Scope } from '../keys/scopes.ts';
import type { AccountRow, MemberRow, SessionRow } from '../storage/tables.ts';
import type { ArgsOf, OperationName, ResultOf } from '../operator/routes.ts';
import type { Asked } from '../api/inside.ts';
import type { Server } from './context.ts';

export interface View {
  kind: 'view';
  view: string;
  title: string;
  data: object;
  status?: number;
  /** The page that a second send of the same form leads to, if this answer has a secret or the outcome of a test: it is not shown again. */
  again?: string;
}

/** A 303, so that a reload does not repeat the action. `say` is shown at the top of the next page. */
export interface Move {
  kind: 'move';
  to: string;
  say?: string;
  cookies?: readonly Cookie[];
}

export type Shown =
  View | Move | { kind: 'file'; body: string | Buffer | Readable; type: string; name?: string; csp?: string };

export interface Cookie {
  name: 'session' | 'theme' | 'device';
  /** Null deletes it. */
  value: string | null;
}

export interface Guest {
  server: Server;
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** The fields of the form that was sent; empty for a GET. */
  form: URLSearchParams;
  ip: string;
  userAgent: string | null;
  /** Asked for by a part of a page that follows what happens. */
  isPoll: boolean;
  now: number;
  /** Time zone of the browser; UTC if it runs no scripts. */
  zone: string;
  /** Value of the session cookie, '' if there is none. */
  sessionToken: string;
  /** The cookie of a browser that has signed in before, '' if there is none (members/sign-in.ts). */
  device: string;
  /** The member who has still to enter the second factor. */
  halfway: { row: SessionRow; member: MemberRow } | null;
}

export interface Visit extends Guest {
  member: MemberRow;
  session: SessionRow;
  account: AccountRow;
  /** All accounts that the member may look at. */
  accounts: readonly AccountRow[];
  /** Gives the session a new cookie with this answer: the one before, and each copy of it, opens nothing from now on. */
  renewSession(): Promise<void>;
  /** `member:<email>`, as in the audit log. */
  actor: string;
  /** True for members who see all accounts and may perform the operations of the server. */
  isAdmin: boolean;
  /** Returns whether the member's role has this scope. */
  may(scope: Scope): boolean;
  /** Calls an operation as this member, with its checks, answers and audit lines. With `accept` it answers bytes or a stream. Throws Problem. */
  ask: Ask;
}

interface Ask {
  (operationId: keyof Operations, asked: Asked & { accept: string }): Promise<Buffer | Readable>;
  <Id extends keyof Operations>(operationId: Id, asked?: Asked): Promise<Operations[Id]['answer']>;
  <Name extends OperationName>(name: Name, asked?: { body: ArgsOf<Name> }): Promise<ResultOf<Name>>;
}

export interface Page {
  method: 'GET' | 'POST';
  /** With parameters as `:id`. */
  path: string;
  /** Pages of members are about the account that is looked at; other members than administrators get 403 for theirs. */
  who: 'anyone' | 'member' | 'admin';
  /** The scope that a member needs: for a page that calls no operation, and for more than an operation asks. Otherwise those refuse. */
  scope?: Scope;
  /** For a form that needs no sign-in: returns false if the form can have no effect, so that its body is not read. */
  knows?: (guest: Guest) => Promise<boolean> | boolean;
  run(visit: Guest | Visit): Promise<Shown> | Shown;
  /** Shows a form again, with the problem that `run` throws. */
  again?: (visit: Guest | Visit, fault: Problem) => Promise<Shown> | Shown;
}

interface More<V> extends Pick<Page, 'scope' | 'knows'> {
  again?: (visit: V, fault: Problem) => Promise<Shown> | Shown;
}

/** A page of members is reached only with a sign-in. */
const declare =
  <V extends Guest>(method: Page['method'], who: Page['who']) =>
  (path: `/${string}`, run: (visit: V) => Promise<Shown> | Shown, more: More<V> = {}): Page =>
    ({ method, path, who, run, ...more }) as Page;

export const get = declare<Visit>('GET', 'member');
export const post = declare<Visit>('POST', 'member');
export const adminGet = declare<Visit>('GET', 'admin');
export const adminPost = declare<Visit>('POST', 'admin');
export const openGet = declare<Guest>('GET', 'anyone');
export const openPost = declare<Guest>('POST', 'anyone');

/** Returns the result of `ask`; null if it throws a Problem with this code. */
export async function nullAt<Result>(code: Problem['code'], ask: () => Promise<Result>): Promise<Result | null> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof Problem && error.code === code) return null;
    throw error;
  }
}

interface ViewData {
  /** The problem of a refused form, which also gives the answer its status. */
  fault?: Problem | string | null;
  [name: string]: unknown;
}

export const view = (
  name: string,
  title: string,
  data: ViewData = {},
  status = data.fault instanceof Problem ? data.fault.status : 200,
): View => ({ kind: 'view', view: name, title, data, status });

/** Shows a secret in the answer to the form that made it. */
export const once = (name: string, title: string, data: ViewData, again: string): Shown => ({
  ...view(name, title, data),
  again,
});

export const move = (to: string, say?: string): Move => ({ kind: 'move', to, ...(say === undefined ? {} : { say }) });
