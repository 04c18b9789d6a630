/** The innermost layer: checks the fields and calls the handler. */
import { Readable } from 'node:stream';
import type { Timer } from '../../base/clock.ts';
import type { Problem } from '../../base/problem.ts';
import { hasLongList, jsonInSlices } from '../../base/slices.ts';
import type { Caller } from '../../keys/caller.ts';
import { createGate } from '../../scheduling/gate.ts';
import { CLIENT_GONE, JSON_TYPE, type Answer } from '../answer.ts';
import { exchangeAudit } from '../audit.ts';
import { callerOf, ownerOf, overWatch, type Context, type Exchange, type Middleware, type Shell } from '../exchange.ts';
import type { Inside } from '../inside.ts';
import type { Incoming, Reply, Route } from '../route.ts';
import { bearerToken, standing } from './admit.ts';

/** Reads that run at once: the database has three readers, and some reads wait for other things. A read that waits there cannot be canceled. */
const READS = { most: 8, mostOfShare: 6, waiting: Infinity };

export function run(shell: Shell): Middleware {
  const gate = createGate(READS);
  return async (ctx) => {
    const { exchange } = ctx.state;
    const { route } = exchange;
    if (route === null) throw new Error('a request without a route was let through');
    const answers = new Answers();
    const work = async (): Promise<Reply> => route.run(incoming(shell, ctx, route, answers));
    // A read whose client has disconnected meanwhile never begins, so that people who reload a slow page leave no work behind.
    const reply = await (isRead(route)
      ? gate.run(ownerOf(exchange) ?? '', () => (isGone(ctx) ? null : work()))
      : work());
    if (reply === null) {
      exchange.answer = clientGone;
      return;
    }
    const answer = await answers.gently(reply);
    // The client has to know of work that was done, so that answer is sent in any case.
    if (route.act === undefined) reserveMemory(shell, ctx, answer);
    exchange.answer = answer;
  };
}

/** The operating system takes an answer of up to this many bytes at once, whatever its client does. */
const SMALL = 64 * 1024;

/** Counts a large answer's memory until its client has taken it; not without a key, where all share one copy. Throws `service_unavailable`. */
export function reserveMemory({ bodyMemory }: Shell, ctx: Context, { body }: Answer): void {
  const owner = ownerOf(ctx.state.exchange);
  if (owner === null || body instanceof Readable || body.length <= SMALL || isGone(ctx)) return;
  const share = bodyMemory.begin(owner, ctx.state.exchange.ip);
  untilClosed(ctx, share.release);
  share.take(body.length);
}

/** Returns whether a request waits for its turn to read. A write is done even if its client has disconnected, who cannot know. */
const isRead = ({ method, scope, lasts }: Route): boolean => method === 'GET' && scope !== null && lasts !== true;

const isGone = ({ req, res }: Context): boolean => res.destroyed || req.socket.destroyed;

/** The answer to a client that has disconnected: for the log only, with the status that other servers use. */
const clientGone: Answer = { status: CLIENT_GONE, code: null, headers: {}, body: '' };

/** Serializes each reply once, so that the stored answer and the sent one are the same bytes. */
export class Answers {
  private readonly made = new Map<Reply, Answer>();

  of(reply: Reply): Answer {
    return this.made.get(reply) ?? this.make(reply, bodyOf(reply));
  }

  /** Does the same; a long list is serialized in slices that let other work run in between. */
  async gently(reply: Reply): Promise<Answer> {
    const known = this.made.get(reply);
    if (known !== undefined) return known;
    const record = 'body' in reply ? reply.body : null;
    if (typeof record !== 'object' || record === null || !hasLongList(record)) return this.of(reply);
    return this.make(reply, await jsonInSlices(record));
  }

  private make(reply: Reply, body: Answer['body']): Answer {
    const headers = Object.assign(typeOf(reply), reply.headers);
    const answer: Answer = { status: reply.status, code: null, headers, body };
    this.made.set(reply, answer);
    return answer;
  }
}

function typeOf(reply: Reply): Record<string, string> {
  if ('type' in reply) return { 'Content-Type': reply.type };
  return reply.body === null ? {} : { 'Content-Type': JSON_TYPE };
}

function bodyOf(reply: Reply): string | Buffer | Readable {
  if ('stream' in reply) return reply.stream;
  if ('bytes' in reply) return reply.bytes;
  return reply.body === null ? '' : JSON.stringify(reply.body);
}

/** Returns a function that watches the client and the server, and what `also` watches. */
function callWatch(
  { stop }: Shell,
  ctx: Context,
  also: (end: () => void) => () => void = () => () => undefined,
): Incoming['whenOver'] {
  let watch: Incoming['whenOver'] | undefined;
  return (listener) => {
    watch ??= overWatch(
      () => stop.begun || ctx.res.destroyed,
      (end) => {
        stop.listeners.add(end);
        const unwatch = also(end);
        const unlisten = untilClosed(ctx, end);
        return () => {
          stop.listeners.delete(end);
          unwatch();
          unlisten();
        };
      },
    );
    watch(listener);
  };
}

function incoming(shell: Shell, ctx: Context, route: Route, answers: Answers): Incoming {
  const { exchange } = ctx.state;
  return {
    params: exchange.params,
    search: exchange.search,
    json: exchange.body?.value ?? {},
    checked: exchange.body?.checked ?? null,
    form: exchange.form,
    bodyBytes: exchange.bodyBytes,
    caller: callerOf(exchange),
    requestId: exchange.requestId,
    now: exchange.at,
    ip: exchange.ip,
    method: exchange.method,
    header: exchange.header,
    idempotencyRow: (reply) => exchange.idempotency?.take(answers.of(reply), route.secretResponse === true) ?? null,
    auditRow(reply) {
      exchange.auditedStatus = reply.status;
      return exchangeAudit(exchange, reply.status, null, shell.clock.monotonic(), reply);
    },
    isStopping: () => shell.stop.begun,
    whenOver: callWatch(shell, ctx, (end) => watchKey(shell, exchange, end)),
    whenKeyEnds: (listener) => {
      // Neither the answer nor its connection would tell the end of the watch any more.
      if (isGone(ctx)) listener();
      else untilClosed(ctx, watchKey(shell, exchange, listener));
    },
  };
}

/** Calls `end` once when the answer was sent or its connection is gone. Returns the function that ends this. */
function untilClosed({ res, req: { socket } }: Context, end: () => void): () => void {
  const close = (): void => {
    unlisten();
    end();
  };
  const unlisten = (): void => {
    res.off('close', close);
    socket.off('close', close);
  };
  res.once('close', close);
  // A response queued behind another one gets no `close` event of its connection.
  socket.once('close', close);
  return unlisten;
}

/** Calls `over` once when the key is no longer what it was. The returned function ends the watch. */
function watchKey(shell: Shell, { key, header }: Exchange, over: () => void): () => void {
  if (key.kind !== 'known') return () => undefined;
  const { caller } = key;
  const token = bearerToken(header('authorization'));
  let timer: Timer | null = null;

  const look = (): void => {
    void isAsBefore(shell, caller, token).then((isGood) => {
      if (!isGood) over();
    });
  };
  const unlisten = shell.keyChanges.listen(look);
  const endsAt = Math.min(caller.expiresAt ?? Infinity, caller.revokedAt ?? Infinity);
  if (endsAt !== Infinity) waitForEnd(endsAt);

  /** Long timers may end early. */
  function waitForEnd(at: number): void {
    const end = (): void => {
      if (shell.clock.now() >= at) over();
      else waitForEnd(at);
    };
    timer = shell.clock.after(at - shell.clock.now(), end, { background: true });
  }

  return () => {
    unlisten();
    timer?.cancel();
  };
}

/** The store keeps the caller as long as the key is unchanged. A key that cannot be looked up now is not trusted further. */
async function isAsBefore({ authenticate, clock }: Shell, caller: Caller, token: string | null): Promise<boolean> {
  if (token === null) return false;
  try {
    const found = await authenticate(token);
    return found.kind === 'found' && found.caller === caller && standing(caller, clock.now()) === 'good';
  } catch {
    return false;
  }
}

/** The layers of the control socket: the caller is the operator, whom its file rights let in; inside.ts calls the operations. */
export interface OperatorDoor {
  inside: Inside;
  /** Finds the operator as the caller of an operation. Throws `not_found` for an account that does not exist. */
  callerOf: (exchange: Pick<Exchange, 'header' | 'params'>, route: Route) => Promise<Caller>;
  /** Returns the person at the command line, for the audit. */
  agentOf: (exchange: Pick<Exchange, 'header'>) => string | null;
  /** Resolves when an act can begin. Throws `Problem` if the database does not answer. */
  ready: () => Promise<void>;
  /** Returns the problem that an error is answered as; one that is not the caller's mistake is logged. */
  problemOf: (operation: string | null, error: unknown) => Problem;
}
export const admitOperator =
  ({ callerOf }: Pick<OperatorDoor, 'callerOf'>): Middleware =>
  async (ctx, next) => {
    const { exchange } = ctx.state;
    if (exchange.route !== null) {
      const caller = await callerOf(exchange, exchange.route);
      exchange.key = { kind: 'known', caller, standing: 'good', isAddressAllowed: true };
    }
    await next();
  };
export const operate =
  (shell: Shell, { inside, agentOf, ready }: OperatorDoor): Middleware =>
  async (ctx) => {
    const { exchange } = ctx.state;
    const { route, key, params, search, body: read, header } = exchange;
    if (route === null || key.kind !== 'known') throw new Error('a request without a route was let through');
    if (route.act !== undefined) await ready();
    const reply = await inside.ask(
      { caller: key.caller, userAgent: agentOf(exchange), whenOver: callWatch(shell, ctx) },
      route.operationId,
      {
        params,
        query: new URLSearchParams(search),
        body: read?.value ?? {},
        read,
        accept: header('accept') ?? 'application/json',
      },
    );
    exchange.answer = await new Answers().gently(withRecord(reply));
  };

/** Answers the removed object, which commands show, in the place of nothing. */
const withRecord = (reply: Reply): Reply =>
  'body' in reply && reply.body === null && reply.before !== undefined ? { status: 200, body: reply.before } : reply;
