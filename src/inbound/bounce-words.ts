/** The words of prose notices (config/bounce-words.yaml): text with gaps and not regular expressions, so that each is found in one pass. */

/** True if one of the phrases occurs in a text that `foldText` has folded. */
export type Phrases = (folded: string) => boolean;

export interface WordSource extends Record<
  'senderNames' | 'failure' | 'delay' | 'success' | 'autoReplyTexts' | 'challenge' | 'originalBegins',
  readonly string[]
> {
  /** Local parts that notices come from. */
  senders: readonly string[];
  /** Local parts of programs that also write other things. */
  nobodies: readonly string[];
  /** Attempts go on. */
  retrying: readonly string[];
  givenUp: readonly string[];
  /** The sentence speaks of what may come. */
  promise: readonly string[];
  /** A filter of the recipient, or the program that stores their mail, sends the mail back. */
  rejection: readonly string[];
  /** Looked for at the begin of a subject alone. */
  autoReplySubjects: readonly string[];
  /** Enhanced status codes with the phrases that mean them, in order of precedence. */
  statuses: readonly { status: string; phrases: readonly string[] }[];
}

export type BounceWords = ReturnType<typeof compileWords>;

/** The longest text that ` ... ` matches, in characters. */
const LONGEST_GAP = 60;
/** Answers put a mark or two before the words: `[Ticket 5] Out of office`, `Re: AW: …`. */
const SUBJECT_MARKS = /^(?:(?:re|aw|sv|fwd?|antw|odp|vs)\s*:\s*|\[[^\]]{0,60}\]\s*|\*+\s*)+/i;

export function compileWords(source: WordSource) {
  const { senders, nobodies, givenUp, autoReplySubjects, statuses, ...others } = source;
  const lists = Object.entries(others).map(([name, phrases]) => [name, anyOf(phrases)]);
  return {
    ...(Object.fromEntries(lists) as Record<keyof typeof others, Phrases>),
    senders: new Set(senders),
    nobodies: new Set(nobodies),
    givenUp: anyOf(givenUp, isAffirmed),
    autoReplySubjects: atBegin(autoReplySubjects),
    statuses: statuses.map(({ status, phrases }) => ({ status, phrases: anyOf(phrases) })),
  };
}

/** Returns text to search phrases in: lower case, white space as one space, typographic quotes as plain ones. */
export function foldText(text: string): string {
  return text
    .toLowerCase()
    .replace(/[‘’ʼ`´]/g, "'")
    .replace(/\s+/g, ' ');
}

type Counts = (text: string, at: number) => boolean;

function anyOf(phrases: readonly string[], counts: Counts = () => true): Phrases {
  const pieces = phrases.map((phrase) => foldText(phrase).split(' ... '));
  return (folded) => pieces.some((one) => occurs(folded, one, counts));
}

const NEGATION = /(?:\b(?:no|not|never)|n't)(?: (?:yet|been|be|an?))* ?$/;

/** True unless the words before deny what follows: `have not given up`, `this is not a permanent error`. */
const isAffirmed: Counts = (text, at) => !NEGATION.test(text.slice(Math.max(0, at - 40), at));

function atBegin(phrases: readonly string[]): Phrases {
  const beginnings = phrases.map(foldText);
  return (folded) => {
    const text = folded.trim();
    const starts = [text.replace(SUBJECT_MARKS, ''), text.replace(/^\[/, '')];
    return beginnings.some((beginning) => starts.some((start) => start.startsWith(beginning)));
  };
}

/** Finds the pieces in their order, each within a gap of the one before. Every occurrence of the first one is tried. */
function occurs(text: string, [first = '', ...others]: readonly string[], counts: Counts): boolean {
  for (let at = text.indexOf(first); at >= 0; at = text.indexOf(first, at + 1)) {
    if ((others.length === 0 || follow(text, at + first.length, others)) && counts(text, at)) return true;
  }
  return false;
}

function follow(text: string, from: number, pieces: readonly string[]): boolean {
  let end = from;
  for (const piece of pieces) {
    const within = text.slice(end, end + LONGEST_GAP + piece.length).indexOf(piece);
    if (within < 0) return false;
    end += within + piece.length;
  }
  return true;
}
