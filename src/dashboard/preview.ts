/**
 * The frame next to the template editor: the rendered subject, HTML and text, or their faults. The frame
 * has no scripts, no network and an opaque origin; the HTML has a frame inside of it, so that its styles do not affect
 * the rest. Pure.
 */
import { escapeHtml } from '../base/html.ts';
import { withoutHints } from './mail-html.ts';

interface SourceFault {
  line: number | null;
  column: number | null;
  message: string;
}

export interface PreviewPart {
  name: string;
  source: string;
  /** Null if the source has faults. */
  rendered: string | null;
  faults: readonly SourceFault[];
}

export interface Preview {
  variables: readonly string[];
  parts: readonly PreviewPart[];
}

const STYLE = `body{font:13px/1.5 system-ui,sans-serif;margin:10px 12px;color:#1b2430;background:#fff}h2{font-size:12px;margin:14px 0 4px;color:#586474}p{margin:0 0 6px}
code,pre{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
iframe{display:block;width:100%;height:56vh;min-height:200px;border:1px solid #d9dee5;border-radius:6px;box-sizing:border-box}
.subject{font-size:15px;font-weight:600;overflow-wrap:anywhere}.dim{color:#586474}.text{border:1px solid #d9dee5;border-radius:6px;padding:8px 10px}
.parts{display:grid;gap:0 14px}@media(min-width:760px){.parts{grid-template-columns:minmax(0,3fr) minmax(0,2fr)}}
.source{padding-left:40px;margin:0}.source li::marker{color:#69747f;font-size:11px}.wrong{background:#fce4e4}.wrong em{display:block;color:#a61b1b;font-style:normal}
.faults{background:#fce4e4;color:#a61b1b;border-radius:6px;padding:8px 10px 8px 26px;margin:0 0 8px}
.out{color:#0b5cad;font-weight:600}.tag{color:#6a2c91;font-weight:600}.note{color:#586474;font-style:italic}.html{color:#146c43}
mark{background:#ffe08a;color:#1b2430}.looks label{margin-right:10px}
body:has(#phone:checked) .parts iframe{width:375px;max-width:100%}iframe.light{color-scheme:light}iframe.dark{display:none;color-scheme:dark;background:#1b1f24}
body:has(#dark:checked) iframe.light{display:none}body:has(#dark:checked) iframe.dark{display:block}
.good{color:#146c43}.chip{display:inline-block;background:#e9ecf0;border-radius:4px;padding:0 6px;margin:0 4px 2px 0}`;

const page = (title: string, body: string): string =>
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title><style>${STYLE}</style></head><body><main>${body}</main></body></html>`;

const chips = (names: readonly string[]): string =>
  names.length === 0 ? 'none' : names.map((name) => `<span class="chip">${escapeHtml(name)}</span>`).join('');

const faultPlace = (name: string, { line, column }: SourceFault): string =>
  [
    name,
    ...(line === null ? [] : [`line ${String(line)}`]),
    ...(column === null ? [] : [`column ${String(column)}`]),
  ].join(', ');

const faultList = (parts: readonly PreviewPart[]): string => {
  const items = parts.flatMap(({ name, faults }) =>
    faults.map((fault) => `<li>${faultPlace(name, fault)}: ${escapeHtml(fault.message)}</li>`),
  );
  return items.length === 0 ? '' : `<ul class="faults">${items.join('')}</ul>`;
};

/** Shows the faults, then subject, HTML and text as they would be sent, then the names of the variables. */
export function previewPage({ variables, parts }: Preview): string {
  const named = (wanted: string): PreviewPart | undefined => parts.find(({ name }) => name === wanted);
  const [subject, html, text] = [named('subject'), named('html'), named('text')];
  const line =
    subject?.rendered == null ? '' : `<h2>Subject</h2><p class="subject">${markedHtml(subject.rendered)}</p>`;
  const frame =
    html?.rendered == null
      ? ''
      : `<div>${looks}${previewFrame(html.rendered, 'light', 'HTML')}${previewFrame(html.rendered, 'dark', 'HTML, dark')}</div>`;
  return page(
    'Preview',
    `${faultList(parts)}${line}<div class="parts">${frame}${textBlock(text, html)}</div><h2>Variables found</h2><p>${chips(variables)}</p>`,
  );
}

/** How the HTML is looked at. The frame has no scripts: the style sheet reads the buttons. */
const looks =
  '<h2>HTML</h2><p class="looks">' +
  [
    ['desktop', 'Desktop'],
    ['phone', 'Phone, 375 px'],
    ['dark', 'Dark'],
  ]
    .map(
      ([id = '', label = ''], n) =>
        `<label><input type="radio" name="look" id="${id}"${n === 0 ? ' checked' : ''}> ${label}</label>`,
    )
    .join(' ') +
  '</p>';

type Theme = 'light' | 'dark';

const previewFrame = (html: string, theme: Theme, title: string): string =>
  `<iframe sandbox class="${theme}" title="${title}" srcdoc="${escapeHtml(withoutHints(inTheme(html, theme)))}"></iframe>`;

/**
 * Returns a mail's HTML as it looks in one theme. A frame of an opaque origin has the theme of the viewer's system whatever its
 * style sheet says, so the conditions about the theme are replaced with some that are always or never true.
 */
export const inTheme = (html: string, theme: Theme): string =>
  html
    .replaceAll(/\(\s{0,9}prefers-color-scheme\s{0,9}:\s{0,9}(light|dark)\s{0,9}\)/gi, (_, wanted: string) =>
      wanted.toLowerCase() === theme ? '(min-width:0)' : '(max-width:0)',
    )
    .replaceAll(
      /(color-scheme["']?\s{0,9}(?::|content=["'])\s{0,9})(?:light\s{1,9}dark|dark\s{1,9}light)\b/gi,
      `$1${theme}`,
    );

/** Escapes a rendered text, and colours what stands for a missing value. */
const markedHtml = (text: string): string =>
  escapeHtml(text).replaceAll(/⟦[^⟧]{1,200}⟧/g, (name) => `<mark>${name}</mark>`);

function textBlock(text: PreviewPart | undefined, html: PreviewPart | undefined): string {
  if (text?.rendered != null) return `<div><h2>Text</h2><pre class="text">${markedHtml(text.rendered)}</pre></div>`;
  const isDerived = text === undefined && html !== undefined;
  return isDerived ? '<div><h2>Text</h2><p class="dim">Derived from the HTML when the mail is sent.</p></div>' : '';
}

/** Shows each source line by line, with the faults in place. */
export function checkPage({ variables, parts }: Preview): string {
  const count = parts.reduce((sum, { faults }) => sum + faults.length, 0);
  const head =
    count === 0
      ? '<p class="good">No faults.</p>'
      : `<p><strong>${String(count)} ${count === 1 ? 'fault' : 'faults'}.</strong></p>`;
  const blocks = parts.map(({ name, source, faults }) => `<h2>${name}</h2>${highlighted(source, faults)}`);
  return page('Check', `${head}<h2>Variables found</h2><p>${chips(variables)}</p>${blocks.join('')}`);
}

/** Shows why there is no preview. */
export const reportPage = (text: string): string => page('Preview', `<p>${escapeHtml(text)}</p>`);

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
