/** Limits of a listener, on one session, one address, one network and all together. */
import { MINUTE_MS } from '../base/time.ts';

/** Limits on what all clients together and one network may have at once. */
export type LimitName = 'connections' | 'connections_network' | 'memory' | 'memory_network';

export type ListenerLimits = typeof listenerLimits;

export const listenerLimits = {
  /** With this many open of strangers, the site that has most sessions without a proof or a user loses its oldest one to the next client. */
  connections: 500,
  connectionsPerAddress: 50,
  /** Connections of a /24 or /64. */
  connectionsPerNetwork: 500,
  connectionsPerMinute: 600,
  /** Places of clients, which are of a trusted network or have signed in, beside the `connections` of others. */
  clientConnections: 0,
  clientConnectionsPerMinute: null as number | null,
  /** Refused commands of one session until it is ended. */
  errors: 20,
  /** Failed sign-ins of one session until it is ended. */
  signIns: 10,
  /** Octets of mails in memory that are being received. */
  heldBytes: 256 * 1024 * 1024,
  /** The share of one network in `heldBytes`. */
  heldBytesPerNetwork: 256 * 1024 * 1024,
  idleMs: 30_000,
  greetingToMailMs: 60_000,
  commandMs: 30_000,
  dataMs: 10 * MINUTE_MS,
  /** Time that a mail may stay behind `dataPace`. */
  dataIdleMs: 30_000,
  /** Octets of a mail a second. */
  dataPace: 1024,
  sessionMs: 30 * MINUTE_MS,
};
