/** Writes the audit line of each use of a key before the answer goes out; lines of plain reads and of 503 follow in a batch. */
import { CLIENT_GONE } from '../answer.ts';
import { exchangeAudit } from '../audit.ts';
import type { Exchange } from '../exchange.ts';
import type { ApiDeps, Middleware } from '../request-state.ts';

type Deps = Pick<ApiDeps, 'audit' | 'clock' | 'log'>;

export function audit(deps: Deps): Middleware {
  return async (ctx, next) => {
    await next();
    const { exchange } = ctx.state;
    if (isAudited(exchange)) await write(deps, exchange);
  };
}

/**
 * Returns whether a request gets an audit line: not without a key; with an unknown key only until its address has used up its
 * rate, since anyone could fill the disk otherwise.
 */
function isAudited(exchange: Exchange): boolean {
  if (exchange.key.kind === 'none') return false;
  if (exchange.key.kind === 'unknown' && exchange.rate.over) return false;
  // The handler wrote the line with its work, unless another status shows that this work was rolled back.
  return exchange.auditedStatus === null || exchange.auditedStatus !== exchange.answer?.status;
}

async function write(deps: Deps, exchange: Exchange): Promise<void> {
  const row = exchangeAudit(
    exchange,
    exchange.answer?.status ?? 500,
    exchange.answer?.code ?? null,
    deps.clock.monotonic(),
  );
  // The database causes most 503s: the answer does not wait for it, and no work was done that the line belongs to.
  const isIdle =
    row.status === 503 ||
    // During a flood with an expired key one commit takes many lines.
    (row.status === 401 && exchange.rate.over) ||
    ((row.status < 400 || row.status === CLIENT_GONE) && ['GET', 'HEAD', 'OPTIONS'].includes(row.method));
  if (isIdle) {
    deps.audit.later(row);
    return;
  }
  try {
    await deps.audit.write(row);
  } catch (err) {
    // The work is committed, so the answer stays, and the line goes to the log.
    deps.log.error({ err, audit: row }, 'an audit line could not be written');
  }
}
