/** The operations on one kind of object, with what they have in common said once. Each method makes a route for the context it gets. */
import { z } from 'zod';
import type { Scope } from '../keys/scopes.ts';
import type { StoreContext } from './context.ts';
import { lineTypes, type ListName } from './list-stream.ts';
import { answerPage, pageParameters, pageResponse, type Page, type PageQuery, type PageWanted } from './page.ts';
import {
  jsonResponse,
  pathWith,
  route,
  type Call,
  type Declaration,
  type Method,
  type Reply,
  type Route,
} from './route.ts';

interface Kind<Params> {
  path: string;
  /** The parameters of the path of one object, which is `{id}` below that of all unless `one` says otherwise. */
  params: z.ZodType<Params>;
  one?: string;
  schema: z.ZodType;
  /** The answer to the creation, if it has more than a record: a secret. */
  made?: z.ZodType;
  reads: Scope;
  changes: Scope;
  /** Its words in the audit. */
  type?: string;
  named?: string;
  audited?: readonly string[];
}

/** An operation without what follows from its kind. `path`, if not the usual one of its method; `says`: the sentence of the audit. */
type Said<Params, Query, Body> = Omit<Declaration<Params, Query, Body>, 'method' | 'path' | 'scope' | 'responses'> &
  Partial<Pick<Declaration<Params, Query, Body>, 'path' | 'responses'>> & {
    scope?: readonly [Scope, ...Scope[]];
    says?: string;
    type?: string;
    named?: string | null;
    keeps?: readonly string[];
  };

type Handler<Params, Query, Body, Context> = (
  call: Call<Params, Query, Body>,
  context: Context,
) => Promise<Reply> | Reply;

type Make<Context> = (context: Context) => Route;

export function resource<Params>(kind: Kind<Params>) {
  const { path, params, schema, made = schema, reads, changes } = kind;
  const one = kind.one ?? `${path}/{id}`;
  const answer = jsonResponse('The object.', schema, 'An example');

  /** Any operation: at a path with parameters and without `params` of its own, one on an object. */
  function at<Own = Params, Query = object, Body = undefined, Context = StoreContext>(
    method: Method,
    usual: string,
    { says, type = kind.type ?? '', named = kind.named, keeps = kind.audited ?? [], ...said }: Said<Own, Query, Body>,
    handler: Handler<Own, Query, Body, Context>,
  ): Make<Context> {
    const { path: where = usual } = said;
    const act = { says: says ?? '', type, keeps, ...(named === undefined ? {} : { named }) };
    const declaration = {
      method,
      path: where,
      scope: [method === 'GET' ? reads : changes] as [Scope],
      // Of an operation on one object `Own` are those of its kind.
      ...(where.includes('{') ? { params: params as unknown as z.ZodType<Own> } : {}),
      responses: { 200: answer },
      ...(says === undefined ? {} : { act }),
      ...said,
    };
    return (context) => route<Own, Query, Body>(declaration, (call) => handler(call, context));
  }

  const read = <Own = Params, Query = object, Context = StoreContext>(
    said: Said<Own, Query, undefined>,
    handler: Handler<Own, Query, undefined, Context>,
  ): Make<Context> => at('GET', one, said, handler);

  return {
    /** `POST` that does something with one. */
    post: <Own = Params, Query = object, Body = undefined, Context = StoreContext>(
      said: Said<Own, Query, Body> & { path: string },
      handler: Handler<Own, Query, Body, Context>,
    ): Make<Context> => at('POST', path, said, handler),
    /** `GET` of all in pages, or of `item`s of one. `whole`: also the whole list as a stream of that name. */
    list<Own extends object = object, Query extends PageQuery = PageQuery, Context extends StoreContext = StoreContext>(
      { whole, item = schema, ...said }: Said<Own, Query, undefined> & { whole?: ListName; item?: z.ZodType },
      read: (wanted: PageWanted, call: Call<Own, Query, undefined>, context: Context) => Promise<Page>,
    ): Make<Context> {
      const page = pageResponse(item);
      const declaration = {
        query: z.strictObject(pageParameters()) as unknown as z.ZodType<Query>,
        responses: whole === undefined ? page : { 200: { ...page[200], types: lineTypes } },
        problems: whole === undefined ? [] : (['too_many_streams'] as const),
        ...said,
      };
      return (context) => {
        const pages = (call: Call<Own, Query, undefined>): Promise<Reply> =>
          answerPage(context.cursors, pathWith(said.path ?? path, call.params), call, (wanted) =>
            read(wanted, call, context),
          );
        return at('GET', path, declaration, whole === undefined ? pages : context.streams.whole(whole, pages))(context);
      };
    },
    /** `POST`, which answers 201 with the new object. */
    create<Body, Context = StoreContext>(
      said: Said<object, object, Body>,
      handler: Handler<object, object, Body, Context>,
    ): Make<Context> {
      const response = jsonResponse('The new object.', made, 'An example');
      const responses = { 201: { ...response, headers: { Location: 'Path of the new object.' } } };
      return at('POST', path, { responses, ...said }, handler);
    },
    /** `GET` of one, or of something about it: the handler finds the record. */
    get<Own = Params, Query = object, Context = StoreContext>(
      said: Said<Own, Query, undefined>,
      find: (call: Call<Own, Query, undefined>, context: Context) => Promise<unknown>,
    ): Make<Context> {
      return read(said, async (call, context) => ({ status: 200, body: await find(call, context) }));
    },
    /** `GET` whose answer is not a record. */
    read,
    update<Body, Context = StoreContext>(
      said: Said<Params, object, Body>,
      handler: Handler<Params, object, Body, Context>,
    ): Make<Context> {
      return at('PATCH', one, said, handler);
    },
    /** `DELETE` of one, which answers 204. */
    remove<Own = Params, Query = object, Context = StoreContext>(
      said: Said<Own, Query, undefined>,
      handler: Handler<Own, Query, undefined, Context>,
    ): Make<Context> {
      return at('DELETE', one, { responses: { 204: { description: 'Removed.' } }, ...said }, handler);
    },
  };
}
