/** Acts of the server itself in the audit. They concern no account, so that administrators and the command line alone see them. */
import type { AppContext } from './context.ts';
import { beginAct, type Acting } from '../operations/act.ts';
import type { ActWords } from '../operations/audit-row.ts';
import { commandActs } from '../operator/door/command-acts.ts';

const server: Acting = { actor: 'server', ip: null, method: 'SYSTEM', user_agent: null };

const acts = {
  'server.migrate': commandActs['server.migrate'],
  'server.start': { says: 'started the server, version {version}', type: 'server', keeps: ['version', 'epoch'] },
  'server.stop': { says: 'stopped the server', type: 'server' },
  'server.reload': { says: 'read the settings again', type: 'settings', keeps: ['applied', 'needRestart'] },
  'server.certificate': { says: 'took a new certificate into use', type: 'certificate' },
} as const satisfies Readonly<Record<string, ActWords>>;

/** Writes the row. One that cannot be written is logged: the act itself is done. */
export async function noteServerAct(
  { db, clock, log }: Pick<AppContext, 'db' | 'clock' | 'log'>,
  name: keyof typeof acts,
  after: object = {},
): Promise<void> {
  const act = beginAct({ commit: db.commit, clock }, { name, words: acts[name] }, server);
  act.on({ after });
  await act.done().catch((err: unknown) => {
    log.error({ err, operation: name }, 'an act of the server could not be written to the audit');
  });
}
