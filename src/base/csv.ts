/** Reads comma-separated values (RFC 4180) in pieces, by the first comma, tab or (where decimals have a comma) semicolon of line 1. Pure. */

export interface CsvReader {
  /** Takes the next piece; returns the records that are complete with it. Throws `CsvFault`. */
  push(piece: string): CsvRecord[];
  /** Ends the text; returns the last record if it had no line end. Throws `CsvFault`. */
  end(): CsvRecord[];
}

export interface CsvRecord {
  line: number;
  fields: string[];
}

/** The text breaks the format; nothing after this can be read. */
export class CsvFault extends Error {}

/** A field or line longer than this is a mistake, such as a quote that is never closed. */
const LONGEST_RECORD = 64 * 1024;

const separators: ReadonlySet<string> = new Set([',', ';', '\t']);

/** Reads text with lines of `LF`, `CRLF` or, as some spreadsheets write, `CR`; a byte order mark and empty lines are passed over. */
export function readCsv(): CsvReader {
  let line = 1;
  let startedAt = 1;
  let fields: string[] = [];
  let field = '';
  let length = 0;
  let state: 'begin' | 'plain' | 'quoted' | 'closed' = 'begin';
  let begun = false;
  /** The last character was a CR that ended a line: an LF behind it belongs to it. */
  let isAfterCr = false;
  let separator: string | null = null;

  function separates(character: string): boolean {
    if (separator === null && separators.has(character)) separator = character;
    return character === separator;
  }

  function endField(): void {
    fields.push(field);
    field = '';
    state = 'begin';
  }

  function endRecord(into: CsvRecord[]): void {
    const isEmpty = fields.length === 0 && field === '' && state === 'begin';
    if (!isEmpty) {
      endField();
      into.push({ line: startedAt, fields });
    }
    fields = [];
    length = 0;
    startedAt = line;
  }

  function take(character: string, records: CsvRecord[]): void {
    if (++length > LONGEST_RECORD)
      throw new CsvFault(
        `line ${String(startedAt)} is longer than ${String(LONGEST_RECORD)} characters: is a quote left open?`,
      );
    if (isAfterCr && character === '\n') {
      isAfterCr = false;
      return;
    }
    isAfterCr = character === '\r' && state !== 'quoted';
    const isLineEnd = character === '\n' || isAfterCr;
    if (isLineEnd) line++;
    if (state === 'quoted') {
      if (character === '"') state = 'closed';
      else field += character;
    } else if (character === '"' && state === 'closed') {
      field += '"';
      state = 'quoted';
    } else if (character === '"' && state === 'begin') state = 'quoted';
    else if (separates(character)) endField();
    else if (isLineEnd) {
      // An empty line says nothing about the separator.
      if (fields.length > 0 || field !== '' || state !== 'begin') separator ??= ',';
      endRecord(records);
    } else {
      if (state === 'closed') throw new CsvFault(`line ${String(line)}: text after the closing quote of a field`);
      state = 'plain';
      field += character;
    }
  }

  return {
    push(piece) {
      const records: CsvRecord[] = [];
      const text = !begun && piece.startsWith('\ufeff') ? piece.slice(1) : piece;
      begun ||= piece !== '';
      for (const character of text) take(character, records);
      return records;
    },
    end() {
      if (state === 'quoted') throw new CsvFault(`line ${String(startedAt)}: a quote is never closed`);
      const records: CsvRecord[] = [];
      endRecord(records);
      return records;
    },
  };
}

/** Returns one line, without its end. A field that a spreadsheet would take for a formula gets an apostrophe before it. */
export function csvLine(fields: readonly (string | null)[]): string {
  return fields.map((field) => csvField(field ?? '')).join(',');
}

function csvField(text: string): string {
  const safe = /^'*[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",;\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Takes back the apostrophe that `csvLine` puts before a formula, and before what looks like one that has it. */
export const unguarded = (field: string): string => (/^'+[=+\-@\t\r]/.test(field) ? field.slice(1) : field);
