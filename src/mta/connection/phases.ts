/** The phases of an SMTP session, their time limits (RFC 5321 section 4.5.3.2) and their durations. */

/** `tls` is the handshake, `block` a piece of the body, `dot` the wait for the answer to the whole message. */
export type Phase = 'connect' | 'banner' | 'ehlo' | 'tls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'block' | 'dot';

/** Milliseconds. Each phase has its limit as a whole: a server that sends a byte now and then does not extend it. */
export type PhaseTimeouts = Record<Phase, number> & {
  bannerWithOthers: number;
  /** Everything from dialling, or from MAIL on a reused connection, to the last answer. */
  attempt: number;
};

/**
 * Milliseconds each part took; 0 if it was not needed (a reused connection) or not reached. `banner` ends with the
 * answer to the first EHLO, `tls` with the answer to the second, `data` with the 354, `dot` covers body and final answer.
 */
export interface Timings {
  connect: number;
  banner: number;
  tls: number;
  mail: number;
  rcpt: number;
  data: number;
  dot: number;
}

export function noTimings(): Timings {
  return { connect: 0, banner: 0, tls: 0, mail: 0, rcpt: 0, data: 0, dot: 0 };
}
