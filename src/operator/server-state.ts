/** The operation that reports on the running server itself, for the dashboard: its ports for mail. */
import { z } from 'zod';
import { rfc3339 } from '../base/rfc3339.ts';
import { onServer, type ListenerState } from './operation.ts';

export const serverStateOperations = {
  'server.state': onServer({
    act: null,
    args: z.strictObject({}),
    run: (deps) =>
      Promise.resolve({ object: 'server_state' as const, listeners: deps.listeners().map(listenerRecord) }),
  }),
};

/** `holder` names the program that has the port, if this machine tells. */
const listenerRecord = ({ name, host, port, open, fault }: ListenerState) => ({
  name,
  host,
  port: open ?? port,
  open: open !== null,
  error: fault?.code ?? null,
  holder: fault?.holder ?? null,
  since: fault === null ? null : rfc3339(fault.since),
});
