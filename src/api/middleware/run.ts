/** The innermost layer: checks the fields and calls the handler. */
import { Readable } from 'node:stream';
import { hasLongList, jsonInSlices } from '../../base/slices.ts';
import { CLIENT_GONE, JSON_TYPE, type Answer } from '../answer.ts';
import { exchangeAudit } from '../audit.ts';
import type { BodyMemory } from '../body-memory.ts';
import { ownerOf, type Exchange } from '../exchange.ts';
import { overWatch } from '../over-watch.ts';
import { createGate } from '../../scheduling/gate.ts';
import { rowFor } from '../idempotency.ts';
import type { Incoming, Reply, Route } from '../route.ts';
import type { ApiDeps, Context, Middleware, Stop } from '../request-state.ts';
import type { Notifier } from '../../scheduling/notifier.ts';
import type { Clock, Timer } from '../../base/clock.ts';
import type { Authenticate, Caller } from '../../keys/caller.ts';
import { bearerToken, standing } from './admit.ts';

type Deps = Pick<ApiDeps, 'clock' | 'authenticate' | 'keyChanges'> & {
  stop: Stop;
  bodyMemory: BodyMemory;
};

/**
 * Reads that run at once: the database has three readers, and some reads wait for other things between two questions to it. One account
 * leaves places to others. More would only wait for the database, where they cannot be canceled.
 */
const READS = { most: 8, mostOfShare: 6, waiting: Infinity };

export function run(deps: Deps): Middleware {
  const gate = createGate(READS);
  return async (ctx) => {
    const { exchange } = ctx.state;
    const { route } = exchange;
    if (route === null) throw new Error('a request without a route was let through');
    const answers = new Answers();
    const work = async (): Promise<Reply> => route.run(incoming(deps, ctx, route, answers));
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
    if (route.act === undefined) reserveMemory(deps.bodyMemory, ctx, answer);
    exchange.answer = answer;
  };
}

/** The operating system takes an answer of up to this many bytes at once, whatever its client does. */
const SMALL = 64 * 1024;

/**
 * Counts the memory of a large answer until its client has taken it. Throws `service_unavailable` if there is not enough left. Answers
 * without a key, such as the OpenAPI document, are in memory once for all clients, so they are not counted.
 */
export function reserveMemory(memory: BodyMemory, ctx: Context, { body }: Answer): void {
  const owner = ownerOf(ctx.state.exchange);
  if (owner === null || body instanceof Readable || body.length <= SMALL || isGone(ctx)) return;
  const share = memory.begin(owner, ctx.state.exchange.ip);
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
    const headers = { ...typeOf(reply), ...reply.headers };
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
export function callWatch(
  stop: Stop,
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

function incoming(deps: Deps, ctx: Context, route: Route, answers: Answers): Incoming {
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
    idempotencyRow(reply) {
      const use = exchange.idempotency;
      if (use === null) return null;
      use.written = rowFor(use, answers.of(reply), exchange.at, route.secretResponse === true);
      return use.written;
    },
    auditRow(reply) {
      exchange.auditedStatus = reply.status;
      return exchangeAudit(exchange, reply.status, null, deps.clock.monotonic(), reply);
    },
    isStopping: () => deps.stop.begun,
    whenOver: callWatch(deps.stop, ctx, (end) => watchKey(deps, exchange, end)),
    whenKeyEnds: (listener) => {
      // Neither the answer nor its connection would tell the end of the watch any more.
      if (isGone(ctx)) listener();
      else untilClosed(ctx, watchKey(deps, exchange, listener));
    },
  };
}

/** An invalid key gives no caller, even if no key is needed. */
function callerOf({ key }: Exchange): Incoming['caller'] {
  return key.kind === 'known' && key.standing === 'good' && key.isAddressAllowed ? key.caller : null;
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

interface KeyWatchDeps {
  clock: Clock;
  authenticate: Authenticate;
  /** Notifies that a key has changed; `authenticate` must know of it by then. */
  keyChanges: Notifier;
}

/** Calls `over` once when the key is no longer what it was. The returned function ends the watch. */
function watchKey(deps: KeyWatchDeps, { key, header }: Exchange, over: () => void): () => void {
  if (key.kind !== 'known') return () => undefined;
  const { caller } = key;
  const token = bearerToken(header('authorization'));
  let timer: Timer | null = null;

  const look = (): void => {
    void isAsBefore(deps, caller, token).then((isGood) => {
      if (!isGood) over();
    });
  };
  const unlisten = deps.keyChanges.listen(look);
  const endsAt = Math.min(caller.expiresAt ?? Infinity, caller.revokedAt ?? Infinity);
  if (endsAt !== Infinity) waitForEnd(endsAt);

  /** Long timers may end early. */
  function waitForEnd(at: number): void {
    const end = (): void => {
      if (deps.clock.now() >= at) over();
      else waitForEnd(at);
    };
    timer = deps.clock.after(at - deps.clock.now(), end, { background: true });
  }

  return () => {
    unlisten();
    timer?.cancel();
  };
}

/** The store keeps the caller as long as the key is unchanged. A key that cannot be looked up now is not trusted further. */
async function isAsBefore(
  { authenticate, clock }: KeyWatchDeps,
  caller: Caller,
  token: string | null,
): Promise<boolean> {
  if (token === null) return false;
  try {
    const found = await authenticate(token);
    return found.kind === 'found' && found.caller === caller && standing(caller, clock.now()) === 'good';
  } catch {
    return false;
  }
}
