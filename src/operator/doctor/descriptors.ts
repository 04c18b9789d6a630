/** Checks that the connections which the settings allow fit under this process's limit of open files. */
import { budgets } from '../../base/budgets.ts';
import { ok, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

/** For what is open besides outgoing connections: sessions at the listeners, HTTP, webhooks, DNS, the database, files. */
const ROOM = budgets.mx_connections.most + 500;

export function descriptors({
  config,
  machine,
  server,
}: Pick<Probes, 'config' | 'machine' | 'server'>): Promise<Verdict> {
  const limit = machine.mostOpenFiles();
  if (limit === null) return Promise.resolve(ok('this system sets no limit on open files, or does not tell it'));
  const most = config.delivery.maxConnections;
  const needed = most + ROOM;
  // Without a server the limit is the one of this shell, which a server started from it would get.
  const who = server.kind === 'missing' ? 'a server started from here' : 'the server';
  if (limit >= needed)
    return Promise.resolve(
      ok(`${who} may have ${String(limit)} files and connections open, and needs ${String(needed)}`),
    );
  const lower = limit > ROOM ? `, or set delivery.maxConnections to ${String(limit - ROOM)} or less` : '';
  return Promise.resolve(
    warning(
      `${who} may have ${String(limit)} files and connections open: too few for delivery.maxConnections (${String(most)}) and ${String(ROOM)} for listeners, database and inbound sessions`,
      `Raise the limit to ${String(needed)} or more and start it again (ulimit -n; for a container --ulimit nofile; for a unit LimitNOFILE)${lower}.`,
    ),
  );
}
