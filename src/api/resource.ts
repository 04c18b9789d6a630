/**
 * The operations on one kind of object. What all of them have in common is said once: where the objects are, what a record looks like,
 * who may read and change them, and what the audit keeps of a change. Each method makes a route for the context that it gets.
 */
import { z } from 'zod';
import type { Scope } from '../keys/scopes.ts';
import type { StoreContext } from './context.ts';
import { lineTypes, type ListName } from './list-lines.ts';
import { answerPage, pageParameters, pageResponse, type Page, type PageQuery, type PageWanted } from './page.ts';
import { jsonResponse, route, type Call, type Declaration, type Method, type Reply, type Route } from './route.ts';

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

/** The declaration of an operation, without what follows from its kind. `says` is the sentence of the audit. */
type Said<Params, Query, Body> = Omit<
  Declaration<Params, Query, Body>,
  'method' | 'path' | 'scope' | 'responses' | 'params'
> &
  Partial<Pick<Declaration<Params, Query, Body>, 'responses' | 'params'>> & {
    scope?: readonly [Scope, ...Scope[]];
    says?: string;
    named?: string;
    keeps?: readonly string[];
  };

type Handler<Params, Query, Body, Context> = (
  call: Call<Params, Query, Body>,
  context: Context,
) => Promise<Reply> | Reply;

type Make<Context> = (context: Context) => Route;

export function resource<Params>(kind: Kind<Params>) {
  const { path, params, schema, made = schema, reads, changes, type = '' } = kind;
  const one = kind.one ?? `${path}/{id}`;
  const answer = jsonResponse('The object.', schema, 'An example');

  /** Any operation at a path: without `params` of its own, one on an object. */
  function at<Own = Params, Query = object, Body = undefined, Context = StoreContext>(
    method: Method,
    where: string,
    { says, named = kind.named, keeps = kind.audited ?? [], ...said }: Said<Own, Query, Body>,
    handler: Handler<Own, Query, Body, Context>,
  ): Make<Context> {
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

  return {
    at,
    /** `GET` of all in pages. `whole`: also the whole list as a stream of that name. */
    list<Query extends PageQuery = PageQuery, Context extends StoreContext = StoreContext>(
      { whole, ...said }: Said<object, Query, undefined> & { whole?: ListName },
      read: (wanted: PageWanted, call: Call<object, Query, undefined>, context: Context) => Promise<Page>,
    ): Make<Context> {
      const page = pageResponse(schema);
      const declaration = {
        query: z.strictObject(pageParameters()) as unknown as z.ZodType<Query>,
        responses: whole === undefined ? page : { 200: { ...page[200], types: lineTypes } },
        problems: whole === undefined ? [] : (['too_many_streams'] as const),
        ...said,
      };
      return (context) => {
        const pages = (call: Call<object, Query, undefined>): Promise<Reply> =>
          answerPage(context.cursors, path, call, (wanted) => read(wanted, call, context));
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
    /** `GET` of one: the handler finds its record. */
    get<Query = object, Context = StoreContext>(
      said: Said<Params, Query, undefined>,
      find: (call: Call<Params, Query, undefined>, context: Context) => Promise<unknown>,
    ): Make<Context> {
      return at<Params, Query, undefined, Context>('GET', one, said, async (call, context) => ({
        status: 200,
        body: await find(call, context),
      }));
    },
    /** `PATCH` of one. */
    update<Body, Context = StoreContext>(
      said: Said<Params, object, Body>,
      handler: Handler<Params, object, Body, Context>,
    ): Make<Context> {
      return at('PATCH', one, said, handler);
    },
    /** `DELETE` of one, which answers 204. */
    remove<Query = object, Context = StoreContext>(
      said: Said<Params, Query, undefined>,
      handler: Handler<Params, Query, undefined, Context>,
    ): Make<Context> {
      return at('DELETE', one, { responses: { 204: { description: 'Removed.' } }, ...said }, handler);
    },
  };
}
