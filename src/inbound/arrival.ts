/** The facts of a mail to us besides its own text: its session, and the mail of ours that it answers. */

export interface Arrival {
  /** The recipients of the SMTP session, which come before any header. */
  recipients: readonly string[];
  /** Its sender, empty for the null sender; null if the mail did not come by SMTP. */
  sender: string | null;
  /** The delivery whose token one of the recipients carries. */
  about: SentMail | null;
}

/** A mail of ours, to one recipient. */
export interface SentMail {
  address: string;
  subject: string;
}

/** Of a mail in a file. */
export const unknownArrival: Arrival = { recipients: [], sender: null, about: null };
