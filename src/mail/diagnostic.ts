/** A refusal as other mail systems quote it (RFC 3464 section 2.3.6, or prose): where its reply begins (RFC 5321 section 4.2), and its phase. */

export interface Diagnostic {
  code: number | null;
  /** The one behind the reply code, else the first one, else one in brackets. */
  enhanced: string | null;
  /** Null if it does not say. */
  phase: 'connect' | 'ehlo' | 'tls' | 'mail' | 'rcpt' | 'data' | 'dot' | null;
  /** From the reply's code on; what a mail system writes around it names hosts and paths that mean nothing. */
  text: string;
}

const LONGEST = 2000;

/** The first code decides, as in a session: a later one may be what another host told the one that answers. */
const AT_BEGIN = /^(?:[a-z0-9-]{1,20}; ?)?([45]\d\d)(?=[ -])/i;
/** A code that begins the text, or follows a mark with which mail systems begin to quote. */
const QUOTED =
  /(?:^|said: |smtp; ?|<<< ?|-> ?|['"(<]|[:;,] ?|error |code |response |returned |status )([45]\d\d)(?![\d.:\]])/i;
/** A code with its enhanced code, anywhere. */
const WITH_ENHANCED = /(?:^|[^\d.])([45]\d\d)[ -]['#([]{0,2}[245]\.\d{1,3}\.\d{1,3}(?!\.?\d)/;
const BEHIND_CODE = /^[45]\d\d[ -]['#([]{0,2}([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)/;
const FIRST = /^[\s#([]{0,3}([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)/;
const BRACKETED = /[#([]([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)/;

/** As Postfix (`in reply to`, and before MAIL `refused to talk to me`), Exim (`after`), Sendmail (`>>>`) and qmail tell it. */
const PHASE =
  /(?:in reply to |after |>>> )(?:the )?(end of data|final dot|rcpt|mail from|ehlo|helo|data|starttls|initial connection|mail)\b|\b(refused to talk to me|but greeting failed|but my name was rejected|but sender was rejected|does not like recipient|failed on data command|failed after i sent the message)\b/i;
const PHASES = {
  'end of data': 'dot',
  'final dot': 'dot',
  rcpt: 'rcpt',
  'mail from': 'mail',
  mail: 'mail',
  ehlo: 'ehlo',
  helo: 'ehlo',
  data: 'data',
  starttls: 'tls',
  'initial connection': 'connect',
  'refused to talk to me': 'connect',
  'but greeting failed': 'connect',
  'but my name was rejected': 'ehlo',
  'but sender was rejected': 'mail',
  'does not like recipient': 'rcpt',
  'failed on data command': 'data',
  'failed after i sent the message': 'dot',
} as const satisfies Record<string, Diagnostic['phase']>;

/** Reads the first 2,000 characters. Any text will do: one without a reply is a diagnostic without codes. */
export function readDiagnostic(text: string): Diagnostic {
  const whole = text
    .slice(0, LONGEST)
    .replace(/\s{1,100}/g, ' ')
    .trim();
  const found = AT_BEGIN.exec(whole) ?? WITH_ENHANCED.exec(whole) ?? QUOTED.exec(whole);
  const code = found?.[1] ?? null;
  const quoted = found === null || code === null ? whole : whole.slice(whole.indexOf(code, found.index));
  // `Recipient not found. Error code 550`: the words come before the code.
  const reply = /\p{L}{2}/u.test(quoted) ? quoted : whole;
  const enhanced = BEHIND_CODE.exec(reply) ?? FIRST.exec(whole) ?? BRACKETED.exec(reply);
  return {
    code: code === null ? null : Number(code),
    enhanced: enhanced?.[1] ?? null,
    phase: phaseOf(whole),
    text: reply,
  };
}

function phaseOf(text: string): Diagnostic['phase'] {
  const found = PHASE.exec(text);
  const said = (found?.[1] ?? found?.[2])?.toLowerCase();
  return said === undefined || !Object.hasOwn(PHASES, said) ? null : PHASES[said as keyof typeof PHASES];
}

/** Returns a reply's words without the codes that begin its joined lines: `550-5.1.1 no such 550 5.1.1 user` says `no such user`. */
export function withoutCodes(text: string, code: number | null): string {
  const bare = text
    .replace(/(?<![\d.])(?:[245]\d\d[ -])?['#([]{0,2}[245]\.\d{1,3}\.\d{1,3}(?!\.?\d)/g, ' ')
    .replace(/(?<!\S)[245]\d\d-(?=\S|$)/g, ' ');
  return code === null ? bare : bare.replaceAll(` ${String(code)} `, ' ').replace(new RegExp(`^${String(code)} `), ' ');
}
