/** What is wrong with a template, with the place in its source. Thrown inside the language, a value outside of it. */

export interface TemplateFault {
  code: 'template_syntax_error' | 'template_render_failed' | 'missing_variable';
  /** With line and column where there is a place. */
  message: string;
  /** 1-based; null where the fault has no place. */
  line: number | null;
  column: number | null;
  /** The variable, where one is missing. */
  name?: string;
}

/** `at` is an offset into the source, or null. */
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

/** Its time ran out: elsewhere it may be given more. */
export class TooSlow extends Faulty {
  constructor(limitMs: number) {
    super('template_render_failed', `it takes longer than ${String(limitMs)} ms`, null);
  }
}

export const syntax = (message: string, at: number): Faulty => new Faulty('template_syntax_error', message, at);
export const failed = (message: string, at: number | null = null): Faulty =>
  new Faulty('template_render_failed', message, at);

/** Line and column of an offset, both counted from 1. */
export function placeOf(source: string, at: number): { line: number; column: number } {
  let line = 1;
  let start = 0;
  for (let end = source.indexOf('\n'); end >= 0 && end < at; end = source.indexOf('\n', end + 1)) {
    line++;
    start = end + 1;
  }
  return { line, column: at - start + 1 };
}

/** The fault as the caller is told of it. */
export function told(source: string, { code, message, at, variable }: Faulty): TemplateFault {
  const place = at === null ? null : placeOf(source, at);
  const where = place === null ? '' : ` line ${String(place.line)} col ${String(place.column)}`;
  return {
    code,
    message: `${message}${where}`,
    line: place?.line ?? null,
    column: place?.column ?? null,
    ...(variable === null ? {} : { name: variable }),
  };
}
