/**
 * One declaration for each page: its path, who may see it, its handler. A handler gets the visit, calls the API or the
 * operator's operations through it, and returns what to show; it never touches the request itself.
 */
import type { Readable } from 'node:stream';
import { Problem } from '../base/problem.ts';
import type { Operations } from '../client/types.ts';
import type { Scope } from '../keys/scopes.ts';
import type { AccountRow, MemberRow, SessionRow } from '../storage/tables.ts';
import type { ArgsOf, OperationName, ResultOf } from '../operator/routes.ts';
import type { Asked } from '../api/inside.ts';

export interface View {
  kind: 'view';
  view: string;
  title: string;
  data: object;
  status?: number;
  /** The page that a second send of the same form leads to, if this answer has a secret or the outcome of a test: it is not shown again. */
  again?: string;
}

/** The answer of a handler. */
export type Shown =
  | View
  /** A 303, so that a reload does not repeat the action. `say` is shown at the top of the next page. */
  | { kind: 'move'; to: string; say?: string; cookies?: readonly Cookie[] }
  | { kind: 'file'; body: string | Buffer | Readable; type: string; name?: string; csp?: string }
  | { kind: 'stream'; body: Readable; type: string };

export interface Cookie {
  name: 'session' | 'theme' | 'device';
  /** Null deletes it. */
  value: string | null;
}

/** A request, signed in or not. */
export interface Guest {
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** The fields of the form that was sent; empty for a GET. */
  form: URLSearchParams;
  ip: string;
  userAgent: string | null;
  /** The value of a header by its lower-case name. */
  header: (name: string) => string | undefined;
  now: number;
  /** Time zone of the browser; UTC if it runs no scripts. */
  zone: string;
  /** Value of the session cookie, '' if there is none. */
  sessionToken: string;
  /** The cookie of a browser that has signed in before, '' if there is none (members/known-device.ts). */
  device: string;
  /** The member who has still to enter the second factor. */
  halfway: { row: SessionRow; member: MemberRow } | null;
}

/** A request of a signed-in member. */
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

export type Who = 'anyone' | 'member' | 'admin';

export interface Page {
  method: 'GET' | 'POST';
  /** With parameters as `:id`. */
  path: string;
  who: Who;
  /** For a page of members: the scope that it needs. Most have none, since the operations that they call refuse the member. */
  scope?: Scope;
  /** For a form that needs no sign-in: returns false if the form can have no effect, so that its body is not read. */
  knows?: Knows;
  run(visit: Guest | Visit): Promise<Shown> | Shown;
}

type Knows = (guest: Guest) => Promise<boolean> | boolean;

type Path = `/${string}`;
type Handler<V> = (visit: V) => Promise<Shown> | Shown;

/** Declares a page for every signed-in member, about the account that is looked at. */
export const get = (path: Path, run: Handler<Visit>): Page => declare('GET', path, 'member', run);
export const post = (path: Path, run: Handler<Visit>): Page => declare('POST', path, 'member', run);
/** Lets only members in whose role has the scope: for a form whose page calls no operation, and for more than an operation asks. */
export const needs = (scope: Scope, page: Page): Page => ({ ...page, scope });
/** Declares a page for administrators; other members get 403. */
export const adminGet = (path: Path, run: Handler<Visit>): Page => declare('GET', path, 'admin', run);
export const adminPost = (path: Path, run: Handler<Visit>): Page => declare('POST', path, 'admin', run);
/** Declares a page that needs no sign-in. */
export const openGet = (path: Path, run: Handler<Guest>): Page => ({ method: 'GET', path, who: 'anyone', run });
export const openPost = (path: Path, run: Handler<Guest>, knows: Knows = () => true): Page => ({
  method: 'POST',
  path,
  who: 'anyone',
  knows,
  run,
});

function declare(method: Page['method'], path: Path, who: 'member' | 'admin', run: Handler<Visit>): Page {
  return {
    method,
    path,
    who,
    run(visit) {
      if (!('member' in visit)) throw new Error(`${path} was reached without a sign-in`);
      return run(visit);
    },
  };
}

/** Runs a form's handler; `again` shows the form with the problem that the handler throws. */
export const withFault =
  <V>(act: Handler<V>, again: (visit: V, fault: Problem) => Promise<Shown> | Shown): Handler<V> =>
  async (visit) => {
    try {
      return await act(visit);
    } catch (error) {
      if (error instanceof Problem) return again(visit, error);
      throw error;
    }
  };

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

export const move = (to: string, say?: string): Shown => ({ kind: 'move', to, ...(say === undefined ? {} : { say }) });
