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
 * A request without a key uses none. One with an unknown key is written too, until its address has spent its bucket:
 * beyond that anybody could fill the disk.
 */
function isAudited(exchange: Exchange): boolean {
  if (exchange.key.kind === 'none') return false;
  if (exchange.key.kind === 'unknown' && exchange.rate.over) return false;
  // A handler took the line and wrote it with its work; if the answer became another one, that work was undone.
  return exchange.auditedStatus === null || exchange.auditedStatus !== exchange.answer?.status;
}

async function write(deps: Deps, exchange: Exchange): Promise<void> {
  const row = exchangeAudit(
    exchange,
    exchange.answer?.status ?? 500,
    exchange.answer?.code ?? null,
    deps.clock.monotonic(),
  );
  // A 503 is owed to the database: it would be late by waiting for it, and nothing was done that the line has to stand beside.
  const isIdle =
    row.status === 503 ||
    // A flood with a key that has ended: one commit for many lines.
    (row.status === 401 && exchange.rate.over) ||
    ((row.status < 400 || row.status === CLIENT_GONE) && ['GET', 'HEAD', 'OPTIONS'].includes(row.method));
  if (isIdle) {
    deps.audit.later(row);
    return;
  }
  try {
    await deps.audit.write(row);
  } catch (err) {
    // The work is done and cannot be taken back: the answer stands, and the line is kept in the log.
    deps.log.error({ err, audit: row }, 'an audit line could not be written');
  }
}
