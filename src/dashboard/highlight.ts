/** Template sources as HTML with line numbers: tags of both languages and of HTML in colours, lines with faults marked. Pure. */

export interface SourceFault {
  line: number | null;
  column: number | null;
  message: string;
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** A piece of source: Handlebars or Liquid output, a Liquid tag, an HTML tag or comment, or plain text. Bounded, hence linear. */
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
    html += `${escaped(line.slice(at, found.index))}<span class="${kindOf(piece)}">${escaped(piece)}</span>`;
    at = found.index + piece.length;
  }
  return html + escaped(line.slice(at));
}

const MOST_LINES = 2000;
const LONGEST_LINE = 2000;

/** `<ol>` with a line of source each; what is wrong in a line stands below it. */
export function highlighted(source: string, faults: readonly SourceFault[]): string {
  const lines = source.split('\n').slice(0, MOST_LINES);
  const rows = lines.map((line, place) => {
    const wrong = faults.filter((fault) => fault.line === place + 1);
    const said = wrong.map(({ column, message }) => `<em>${column === null ? '' : `column ${String(column)}: `}${escaped(message)}</em>`); // prettier-ignore
    return `<li${wrong.length > 0 ? ' class="wrong"' : ''}><code>${lineHtml(line.slice(0, LONGEST_LINE))}</code>${said.join('')}</li>`;
  });
  const nowhere = faults.filter(({ line }) => line === null || line > lines.length);
  return `${nowhere.map(({ message }) => `<p class="wrong"><em>${escaped(message)}</em></p>`).join('')}<ol class="source">${rows.join('')}</ol>`;
}

const STYLE = `body{font:13px/1.5 system-ui,sans-serif;margin:10px;color:#1b2430;background:#fff}h2{font-size:14px;margin:14px 0 4px}
code,pre{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.source{padding-left:40px;margin:0}.source li::marker{color:#8792a0;font-size:11px}.wrong{background:#fce4e4}.wrong em{display:block;color:#a61b1b;font-style:normal}
.out{color:#0b5cad;font-weight:600}.tag{color:#6a2c91;font-weight:600}.note{color:#6b7686;font-style:italic}.html{color:#146c43}
.good{color:#146c43}.chip{display:inline-block;background:#e9ecf0;border-radius:4px;padding:0 6px;margin-right:4px}`;

/** What a check of a template found, as a page for the frame beside the editor. */
export interface Checked {
  variables: readonly string[];
  parts: readonly { name: string; source: string; rendered: string | null; faults: readonly SourceFault[] }[];
}

export function checkPage({ variables, parts }: Checked): string {
  const count = parts.reduce((sum, { faults }) => sum + faults.length, 0);
  const head = count === 0 ? '<p class="good">No faults.</p>' : `<p><strong>${String(count)} ${count === 1 ? 'fault' : 'faults'}.</strong></p>`; // prettier-ignore
  const names = variables.map((name) => `<span class="chip">${escaped(name)}</span>`).join('');
  const blocks = parts.map(({ name, source, rendered, faults }) => {
    const shown = rendered === null || name === 'html' ? '' : `<h2>${name}, rendered</h2><pre>${escaped(rendered)}</pre>`; // prettier-ignore
    return `${shown}<h2>${name}, source</h2>${highlighted(source, faults)}`;
  });
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Check</title><style>${STYLE}</style><main>${head}<h2>Variables found</h2><p>${names === '' ? 'none' : names}</p>${blocks.join('')}</main></html>`;
}
