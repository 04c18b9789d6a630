/** The facts of a body that sending it needs, found in one reading. */
export interface BodyFacts {
  /** The hash of its relaxed form (RFC 6376), base64: what DKIM signs. */
  bodyHash: string;
  /** The mail has octets beyond ASCII (RFC 6152). */
  eightBit: boolean;
}

/** The result of one pass over the octets of a body: a pass for each kind would cost as much as this one. */
export interface Survey {
  /** The number of CR and LF that are not part of a CRLF. */
  bareEnds: number;
  /** A line of more than 998 octets (RFC 5321 section 4.5.3.1.6). */
  hasLongLine: boolean;
  /** White space as relaxed bodies have it (RFC 6376 section 3.4.4); empty lines at the end are not looked at. */
  isRelaxed: boolean;
}

const [TAB, LF, CR, SPACE] = [0x09, 0x0a, 0x0d, 0x20];
const LONGEST_LINE = 998;

export function survey(octets: Buffer): Survey {
  const found = { bareEnds: 0, hasLongLine: false, isRelaxed: true };
  const { length } = octets;
  const view = new DataView(octets.buffer, octets.byteOffset, length);
  let lineStart = 0;
  for (let at = nextWhite(view, 0, length); at < length; at = nextWhite(view, at + 1, length)) {
    const octet = octets[at] ?? 0;
    if (octet === SPACE) {
      if (octets[at - 1] === SPACE) found.isRelaxed = false;
    } else if (octet === LF) {
      if (octets[at - 1] !== CR) found.bareEnds++;
      if (at - 1 - lineStart > LONGEST_LINE) found.hasLongLine = true;
      lineStart = at + 1;
    } else if (octet === CR) {
      if (octets[at - 1] === SPACE) found.isRelaxed = false;
      if (octets[at + 1] !== LF) found.bareEnds++;
    } else if (octet === TAB) found.isRelaxed = false;
  }
  if (length - lineStart > LONGEST_LINE) found.hasLongLine = true;
  return found;
}

/** Returns the place of the next octet that is not above a space, or `end`. It looks at four octets at a time: base64 takes a third of the time. */
function nextWhite(view: DataView, from: number, end: number): number {
  let at = from;
  for (; at + 4 <= end; at += 4) {
    const four = view.getInt32(at, true);
    // Has the highest bit of the first octet below 0x21, and none before it.
    const low = (four - 0x21212121) & ~four & 0x80808080;
    if (low !== 0) return at + ((31 - Math.clz32(low & -low)) >> 3);
  }
  while (at < end && view.getUint8(at) > SPACE) at++;
  return at;
}

/** Makes each CR, LF and CRLF a CRLF: a later reader may take a bare one for a line end (CVE-2023-51764). */
export function withCrlf(mail: Buffer, bareEnds = survey(mail).bareEnds): Buffer {
  if (bareEnds === 0) return mail;
  // Octet by octet: a regular expression takes memory for each line end, of which a large mail may have millions.
  const lines = Buffer.allocUnsafeSlow(mail.length + bareEnds);
  let to = 0;
  for (let at = 0; at < mail.length; at++) {
    const octet = mail[at] ?? 0;
    if (octet !== CR && octet !== LF) {
      lines[to++] = octet;
      continue;
    }
    lines[to++] = CR;
    lines[to++] = LF;
    if (octet === CR && mail[at + 1] === LF) at++;
  }
  return lines;
}
