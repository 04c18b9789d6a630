/**
 * Reads what `strace -f -y -xx` wrote of a program: what it wrote to its files, when it made them durable, and what it told
 * its clients, in that order. Pure.
 */

export type Step =
  | { kind: 'write'; file: string; at: number; bytes: Buffer }
  | { kind: 'truncate'; file: string; size: number }
  /** All that was written to the file before is on the disk. */
  | { kind: 'sync'; file: string }
  /** The bytes that a client was sent. */
  | { kind: 'told'; text: string };

/** The system calls that strace writes down. */
export const TRACED = ['write', 'writev', 'pwrite64', 'fsync', 'fdatasync', 'ftruncate'];

/** A call that another thread's line interrupted, by thread: its beginning. */
export type Unfinished = Map<string, string>;

const LINE = /^(?<thread>\d+) +(?<rest>.*)$/;
const CALL = /^(?<name>\w+)\(\d+<(?<what>[^>]*)>(?:, )?(?<rest>.*)$/;

/**
 * What one line means, or null. A write counts from where it begins, since it may be on the disk from then on; fsync counts
 * from where it has returned. A write to a socket is something told.
 */
export function readLine(line: string, unfinished: Unfinished): Step | null {
  const { thread = '', rest = '' } = LINE.exec(line)?.groups ?? {};
  const resumed = /^<\.\.\. \w+ resumed>(?<rest>.*)$/.exec(rest);
  if (resumed !== null) {
    const begun = unfinished.get(thread) ?? '';
    unfinished.delete(thread);
    return syncOf(begun + (resumed.groups?.['rest'] ?? ''));
  }
  const cut = / <unfinished \.\.\.>$/.exec(rest);
  if (cut === null) return stepOf(rest) ?? syncOf(rest);
  const begun = rest.slice(0, cut.index);
  unfinished.set(thread, begun);
  return stepOf(begun);
}

/** A call on a file or socket, whose name is written as bytes too. */
function partsOf(call: string): { name: string | undefined; what: string; rest: string } {
  const { name, what = '', rest = '' } = CALL.exec(call)?.groups ?? {};
  return { name, what: bytesOf(what).toString(), rest };
}

function stepOf(call: string): Step | null {
  const { name, what, rest } = partsOf(call);
  switch (name) {
    case 'pwrite64': {
      const { text, after } = firstString(rest);
      const at = /^, \d+, (?<at>\d+)/.exec(after)?.groups?.['at'];
      if (at === undefined)
        throw new Error(`a write without its place, or longer than was traced: ${call.slice(-200)}`);
      return { kind: 'write', file: what, at: Number(at), bytes: text };
    }
    case 'ftruncate':
      return { kind: 'truncate', file: what, size: Number.parseInt(rest, 10) };
    case 'write':
    case 'writev':
      return /^(?:socket|TCP)/.test(what) ? { kind: 'told', text: allStrings(rest) } : null;
    default:
      return null;
  }
}

function syncOf(call: string): Step | null {
  const { name, what, rest } = partsOf(call);
  if (name !== 'fsync' && name !== 'fdatasync') return null;
  return rest.endsWith(' = 0') ? { kind: 'sync', file: what } : null;
}

/** The first quoted string, all of whose bytes are written as `\xHH`, and what comes after it. */
function firstString(rest: string): { text: Buffer; after: string } {
  const begin = rest.indexOf('"');
  const end = rest.indexOf('"', begin + 1);
  return { text: bytesOf(rest.slice(begin + 1, end)), after: rest.slice(end + 1) };
}

const bytesOf = (hex: string): Buffer => Buffer.from(hex.replaceAll('\\x', ''), 'hex');

const allStrings = (rest: string): string =>
  [...rest.matchAll(/"(?<hex>(?:\\x[0-9a-f]{2})*)"/g)]
    .map(({ groups }) => bytesOf(groups?.['hex'] ?? '').toString('latin1'))
    .join('');
