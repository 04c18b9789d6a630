/** Writes the audit line of each use of a key before the answer goes out; lines of plain reads and of 503 follow in a batch. */
import { CLIENT_GONE } from '../answer.ts';
import { detailsOf, exchangeAudit } from '../audit.ts';
import type { Exchange } from '../exchange.ts';
import type { StrangerLines } from '../stranger-lines.ts';
import type { ApiDeps, Middleware } from '../request-state.ts';

type Deps = Pick<ApiDeps, 'audit' | 'clock' | 'log' | 'keepBodies'> & { strangerLines: StrangerLines };

export function audit(deps: Deps): Middleware {
  return async (ctx, next) => {
    await next();
    const { exchange } = ctx.state;
    if (isAudited(deps, exchange)) await write(deps, exchange);
  };
}

/** Returns whether a request is logged: not without a key, and those of unknown keys within a budget, since anyone could fill the disk otherwise. */
function isAudited({ strangerLines }: Deps, { key, ip, at, rate, header, answer }: Exchange): boolean {
  if (key.kind === 'known') return true;
  // A key in another form than that of the Authorization header was meant as one: an administrator should see it too.
  if (key.kind === 'none' && (header('authorization') === undefined || answer?.status !== 401)) return false;
  return strangerLines.take(ip, at, rate.over);
}

async function write(deps: Deps, exchange: Exchange): Promise<void> {
  const { answer, auditedStatus } = exchange;
  const details = detailsOf(exchange, deps.keepBodies ?? 'none');
  // The handler wrote the line with its work, unless another status shows that this work was rolled back.
  if (auditedStatus !== null && auditedStatus === answer?.status) {
    if (details !== null) deps.audit.note(details);
    return;
  }
  const row = exchangeAudit(exchange, answer?.status ?? 500, answer?.code ?? null, deps.clock.monotonic());
  // The database causes most 503s: the answer does not wait for it, and no work was done that the line belongs to.
  const isIdle =
    row.status === 503 ||
    // During a flood with an expired key one commit takes many lines.
    (row.status === 401 && exchange.rate.over) ||
    ((row.status < 400 || row.status === CLIENT_GONE) && ['GET', 'HEAD', 'OPTIONS'].includes(row.method));
  if (isIdle) {
    deps.audit.later(row, details);
    return;
  }
  try {
    await deps.audit.write(row, details);
  } catch (err) {
    // The work is committed, so the answer stays, and the line goes to the log.
    deps.log.error({ err, audit: row }, 'an audit line could not be written');
  }
}
