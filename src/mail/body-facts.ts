/** The facts of a body that sending it needs, found in one reading. */
export interface BodyFacts {
  /** The hash of its relaxed form (RFC 6376), base64: what DKIM signs. */
  bodyHash: string;
  /** The mail has octets beyond ASCII (RFC 6152). */
  eightBit: boolean;
}
