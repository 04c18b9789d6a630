/** What a body is found to be when it is read once, and what sending it needs to know. */
export interface BodyFacts {
  /** The hash of its relaxed form (RFC 6376), base64: what DKIM signs. */
  bodyHash: string;
  /** The mail has octets beyond ASCII (RFC 6152). */
  eightBit: boolean;
}
