/** The audit row of a request: one for every use of a key, refused uses included; and the details that the request log keeps of it. */
import type { ProblemCode } from '../base/problem.ts';
import { actorOf } from '../keys/caller.ts';
import { auditRow, type Deed } from '../operations/audit-row.ts';
import { redactedBody } from '../operations/redact.ts';
import type { AuditRow, RequestDetailsRow } from '../storage/tables.ts';
import { CLIENT_GONE, JSON_TYPE } from './answer.ts';
import { ownerOf, type Exchange, type Middleware, type Shell } from './exchange.ts';
import type { Reply, Route } from './route.ts';
import { budgets, type UsedUp } from '../base/budgets.ts';
import { networkOf } from '../net/ip.ts';
import { Allowance } from '../scheduling/allowance.ts';

const LONGEST_PATH = 200;
const LONGEST_QUERY = 1000;
const LONGEST_MESSAGE = 500;

/** `monotonic` is the clock's reading now, for the duration. `reply` is absent if the handler gave none. */
export function exchangeAudit(
  exchange: Exchange,
  status: number,
  code: ProblemCode | null,
  monotonic: number,
  reply?: Reply,
): AuditRow {
  const { route, pattern, replay, path, params, idempotency } = exchange;
  const caller = exchange.key.kind === 'known' ? exchange.key.caller : null;
  return auditRow({
    at: exchange.at,
    accountId: caller?.accountId ?? null,
    keyId: caller?.keyId ?? null,
    actor: caller === null ? 'api' : actorOf(caller),
    ip: exchange.ip,
    userAgent: exchange.header('user-agent') ?? null,
    method: exchange.method,
    endpoint: route?.path ?? pattern ?? withoutAddresses(path).slice(0, LONGEST_PATH),
    operation: route?.operationId ?? null,
    words: route?.act ?? null,
    deed: route?.act === undefined ? undefined : deedOf(params, reply, exchange.body?.value),
    status,
    ...(replay === 'mismatch' ? { result: 'idempotency_mismatch' } : {}),
    code,
    isReplay: replay !== null,
    requestId: exchange.requestId,
    ms: monotonic - exchange.started,
    path: route === null || route.path === path || isForgotten(route) ? null : path,
    field: faultOf(exchange)?.field ?? null,
    idempotencyKey: route?.secretResponse === true ? null : (idempotency?.value ?? null),
  });
}

/** Returns a path without its addresses: the line of a mistyped path outlives an erasure. An `@` may be percent-encoded more than once. */
const withoutAddresses = (path: string): string => path.replace(/[^/]*(?:@|%(?:25)*40)[^/]*/g, '{address}');

/** Returns whether the request names a person who is to be forgotten: nothing of it is kept. */
const isForgotten = (route: Pick<Route, 'act'>): boolean => route.act?.named === null;

/** Returns field and text of the error in the answer, or null. Reads the answer itself, so that a repeated one has them too. */
function faultOf({ answer }: Pick<Exchange, 'answer'>): { field: string | null; message: string } | null {
  if (answer === null || answer.status < 400 || typeof answer.body !== 'string') return null;
  if (answer.fault !== undefined) return answer.fault;
  if (answer.headers['Content-Type'] !== JSON_TYPE) return null;
  const { error } = JSON.parse(answer.body) as { error?: { field: string | null; message: string } };
  return error ?? null;
}

/** Takes out what `JSON.parse` quotes of a malformed body: up to 40 characters, perhaps of a secret or a mail. The client gets them. */
const withoutBody = (message: string | undefined): string | undefined =>
  message?.replace(/, (?:\.\.\.)?"[^]*"(?:\.\.\.)? is not valid JSON\.$/, '.');

/** The bodies that are kept, redacted: none, those of refused and failed requests, or all. */
export type KeptBodies = 'none' | 'refused' | 'all';

/** Returns the details of an answered request; null if there are none. Of strangers only the error is kept. */
export function detailsOf(exchange: Exchange, keeps: KeptBodies): RequestDetailsRow | null {
  const { route, search, answer, body } = exchange;
  if (route !== null && isForgotten(route)) return null;
  const owner = ownerOf(exchange);
  const isKept = owner !== null && (keeps === 'all' || (keeps === 'refused' && (answer?.status ?? 500) >= 400));
  const details = {
    query: owner === null || search === '' ? null : search.slice(0, LONGEST_QUERY).toWellFormed(),
    error_message: withoutBody(faultOf(exchange)?.message)?.slice(0, LONGEST_MESSAGE).toWellFormed() ?? null,
    body: isKept && body !== null ? redactedBody(body.value) : null,
  };
  if (Object.values(details).every((one) => one === null)) return null;
  const accountId = exchange.key.kind === 'known' ? exchange.key.caller.accountId : null;
  return { request_id: exchange.requestId, account_id: accountId, ...details };
}

/** Members of a body that name what is to be made; none of them is a secret. */
const naming = ['name', 'email', 'url', 'slug'] as const;

/** Returns the object that a request was about: the record of the answer, the object that the path names, or what was to be made. */
export function deedOf(params: Readonly<Record<string, string>>, reply?: Reply, asked: object = {}): Deed {
  const [object = null] = Object.values(params);
  if (reply === undefined || !('body' in reply)) {
    const wanted = asked as Readonly<Record<string, unknown>>;
    return object === null
      ? { object, asked: Object.fromEntries(naming.map((one) => [one, withoutLogin(wanted[one])])) }
      : { object };
  }
  const { body, before = null, deed } = reply;
  return deed ?? { object, before, after: typeof body === 'object' ? body : null };
}

/** Takes the name and password out of a URL, which only a refused one has. */
const withoutLogin = (value: unknown): unknown =>
  typeof value === 'string' ? value.replace(/\/\/[^/@]*@/, '//') : value;

export function audit(shell: Shell): Middleware {
  return async (ctx, next) => {
    await next();
    const { exchange } = ctx.state;
    if (isAudited(shell, exchange)) await write(shell, exchange);
  };
}

/** Returns whether a request is logged: not without a key, and those of unknown keys within a budget, since anyone could fill the disk otherwise. */
function isAudited({ strangerLines }: Shell, { key, ip, at, rate, header, answer }: Exchange): boolean {
  if (key.kind === 'known') return true;
  // A key in another form than that of the Authorization header was meant as one: an administrator should see it too.
  if (key.kind === 'none' && (header('authorization') === undefined || answer?.status !== 401)) return false;
  return strangerLines.take(ip, at, rate.over);
}

async function write({ audit: sink, keepBodies = 'none', clock, log }: Shell, exchange: Exchange): Promise<void> {
  const { answer, auditedStatus } = exchange;
  const details = detailsOf(exchange, keepBodies);
  // The handler wrote the line with its work, unless another status shows that this work was rolled back.
  if (auditedStatus !== null && auditedStatus === answer?.status) {
    if (details !== null) sink.note(details);
    return;
  }
  const row = exchangeAudit(exchange, answer?.status ?? 500, answer?.code ?? null, clock.monotonic());
  // The database causes most 503s: the answer does not wait for it, and no work was done that the line belongs to.
  const isIdle =
    row.status === 503 ||
    // During a flood with an expired key one commit takes many lines.
    (row.status === 401 && exchange.rate.over) ||
    ((row.status < 400 || row.status === CLIENT_GONE) && ['GET', 'HEAD', 'OPTIONS'].includes(row.method));
  if (isIdle) {
    sink.later(row, details);
    return;
  }
  try {
    await sink.write(row, details);
  } catch (err) {
    // The work is committed, so the answer stays, and the line goes to the log.
    log.error({ err, audit: row }, 'an audit line could not be written');
  }
}

/** The lines for unknown keys, which show a program with a wrong key. Strangers have a budget; what goes beyond it is only counted. */
export class StrangerLines {
  /** Requests that were counted and not kept, since the start of the server. */
  notKept = 0;
  private readonly ofNetwork = new Allowance({ most: budgets.unknown_key_lines_network.most, within: 'hour' });
  private readonly ofAll = new Allowance({ most: budgets.unknown_key_lines.most, within: 'hour' });
  private readonly usedUp: UsedUp;

  constructor(usedUp: UsedUp = () => undefined) {
    this.usedUp = usedUp;
  }

  /** Returns whether one more line may be kept: of an address that is over its rate of requests none, which are counted all the same. */
  take(ip: string, now: number, isOver: boolean): boolean {
    const network = networkOf(ip);
    const fits = !isOver && this.ofNetwork.has(network, 1, now);
    if (fits && this.ofAll.has('', 1, now)) {
      this.ofNetwork.spend(network, 1, now);
      this.ofAll.spend('', 1, now);
      return true;
    }
    this.notKept++;
    if (!isOver) this.usedUp(fits ? 'unknown_key_lines' : 'unknown_key_lines_network');
    return false;
  }
}
