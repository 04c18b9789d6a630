/** Faults of a template, with their place in the source. Inside the language they are thrown, outside they are values. */

export interface TemplateFault {
  code: 'template_syntax_error' | 'template_render_failed' | 'missing_variable';
  /** Ends with line and column, if the fault has a place. */
  message: string;
  /** Counted from 1; null if the fault has no place. */
  line: number | null;
  column: number | null;
  /** The missing variable, if that is the fault. */
  name?: string;
}

/** A thrown fault. `at` is an offset into the source, or null. */
export class Faulty extends Error {
  readonly code: TemplateFault['code'];
  readonly at: number | null;
  readonly variable: string | null;

  constructor(code: TemplateFault['code'], message: string, at: number | null, variable: string | null = null) {
    super(message);
    this.code = code;
    this.at = at;
    this.variable = variable;
  }
}

/** The time limit was reached: elsewhere there may be more time. */
export class TooSlow extends Faulty {
  constructor(limitMs: number) {
    super('template_render_failed', `rendering takes longer than ${String(limitMs)} ms`, null);
  }
}

export const syntax = (message: string, at: number): Faulty => new Faulty('template_syntax_error', message, at);
export const failed = (message: string, at: number | null = null): Faulty =>
  new Faulty('template_render_failed', message, at);

export function lineAndColumn(source: string, at: number): { line: number; column: number } {
  let line = 1;
  let start = 0;
  for (let end = source.indexOf('\n'); end >= 0 && end < at; end = source.indexOf('\n', end + 1)) {
    line++;
    start = end + 1;
  }
  return { line, column: at - start + 1 };
}

/** Makes the fault that callers get: with its place, and with a capital letter like all messages. */
export function toTemplateFault(source: string, { code, message, at, variable }: Faulty): TemplateFault {
  const place = at === null ? null : lineAndColumn(source, at);
  const where = place === null ? '' : ` line ${String(place.line)} col ${String(place.column)}`;
  return {
    code,
    message: `${message.charAt(0).toUpperCase()}${message.slice(1)}${where}`,
    line: place?.line ?? null,
    column: place?.column ?? null,
    ...(variable === null ? {} : { name: variable }),
  };
}
