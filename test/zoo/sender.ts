/** The sender in the zoo: Posthorn, or Postfix for comparison. */

export interface Usage {
  cpuMs: number;
  bytesWritten: number;
}

/** Questions that only Posthorn answers, by its API and its commands. */
export interface Inspector {
  /** The reason for which a recipient's mail waits, with its text. */
  why(to: string): Promise<{ status: string; reason: string; message: string; until: string | null }>;
  /** Events of these types, in order. */
  events(...types: string[]): Promise<SeenEvent[]>;
  /** `posthorn queue lanes --json`. */
  lanes(): Promise<unknown>;
}

export interface SeenEvent {
  type: string;
  data: {
    recipient: string;
    delivered?: { attempt: number };
    bounced?: { suppression_added: boolean; smtp_reply: string | null };
  };
}

export interface Sender {
  readonly name: string;
  /** Hands over one mail for each recipient; resolves when all are accepted. */
  send(to: readonly string[]): Promise<void>;
  /** The operator tries again now what waits for a domain. */
  flush(domain: string): Promise<void>;
  /** Mails given up for good. */
  bounced(): Promise<number>;
  usage(): Usage;
  readonly inspect: Inspector | null;
  /** Ends it without a warning, or as softly as it can, and starts it again. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}
