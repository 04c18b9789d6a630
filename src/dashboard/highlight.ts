/** Shows template sources as HTML with line numbers, coloured tags and marked faults. Pure. */

import { escapeHtml } from '../base/html.ts';

export interface SourceFault {
  line: number | null;
  column: number | null;
  message: string;
}

/** Matches Handlebars or Liquid output, a Liquid tag, an HTML tag or a comment. Its lengths are bounded, so its time is linear. */
const PIECES = /\{\{[^}]{0,2000}\}\}\}?|\{%[^%]{0,2000}%\}|<!--[^>]{0,2000}-->|<\/?[a-zA-Z][^<>{}]{0,500}>?/g;

const kindOf = (piece: string): string =>
  piece.startsWith('{{!') || piece.startsWith('<!--') || /^\{%-? *comment/.test(piece)
    ? 'note'
    : piece.startsWith('{%') || /^\{\{[#/^]|^\{\{-? *else/.test(piece)
      ? 'tag'
      : piece.startsWith('{{')
        ? 'out'
        : 'html';

function lineHtml(line: string): string {
  let html = '';
  let at = 0;
  for (const found of line.matchAll(PIECES)) {
    const [piece] = found;
    html += `${escapeHtml(line.slice(at, found.index))}<span class="${kindOf(piece)}">${escapeHtml(piece)}</span>`;
    at = found.index + piece.length;
  }
  return html + escapeHtml(line.slice(at));
}

const MOST_LINES = 2000;
const LONGEST_LINE = 2000;

/** Returns an `<ol>` with one item per line of source, and the faults of a line below it. */
export function highlighted(source: string, faults: readonly SourceFault[]): string {
  const lines = source.split('\n').slice(0, MOST_LINES);
  const rows = lines.map((line, place) => {
    const wrong = faults.filter((fault) => fault.line === place + 1);
    const said = wrong.map(
      ({ column, message }) => `<em>${column === null ? '' : `column ${String(column)}: `}${escapeHtml(message)}</em>`,
    );
    return `<li${wrong.length > 0 ? ' class="wrong"' : ''}><code>${lineHtml(line.slice(0, LONGEST_LINE))}</code>${said.join('')}</li>`;
  });
  const nowhere = faults.filter(({ line }) => line === null || line > lines.length);
  return `${nowhere.map(({ message }) => `<p class="wrong"><em>${escapeHtml(message)}</em></p>`).join('')}<ol class="source">${rows.join('')}</ol>`;
}
