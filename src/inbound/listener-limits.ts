/** Limits of a listener, on one session, one address, one network and all together. */

/** Limits on what all clients together and one network may have at once. */
export type LimitName = 'connections' | 'connectionsPerNetwork' | 'heldBytes' | 'heldBytesPerNetwork';

export interface ListenerLimits {
  /** With so many open, the site that has most sessions without a proof or a user loses its oldest one to the next client. */
  connections: number;
  connectionsPerAddress: number;
  /** Connections of a /24 or /64. */
  connectionsPerNetwork: number;
  connectionsPerMinute: number;
  /** Refused commands of one session until it is ended. */
  errors: number;
  /** Failed sign-ins of one session until it is ended. */
  signIns: number;
  /** Octets of mails in memory that are being received. */
  heldBytes: number;
  /** The share of one network in `heldBytes`. */
  heldBytesPerNetwork: number;
  idleMs: number;
  greetingToMailMs: number;
  commandMs: number;
  dataMs: number;
  /** Time that a mail may stay behind `dataPace`. */
  dataIdleMs: number;
  /** Octets of a mail a second. */
  dataPace: number;
  sessionMs: number;
}

export const listenerLimits: ListenerLimits = {
  connections: 500,
  connectionsPerAddress: 50,
  connectionsPerNetwork: 500,
  connectionsPerMinute: 600,
  errors: 20,
  signIns: 10,
  heldBytes: 256 * 1024 * 1024,
  heldBytesPerNetwork: 256 * 1024 * 1024,
  idleMs: 30_000,
  greetingToMailMs: 60_000,
  commandMs: 30_000,
  dataMs: 10 * 60_000,
  dataIdleMs: 30_000,
  dataPace: 1024,
  sessionMs: 30 * 60_000,
};
