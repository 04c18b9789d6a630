/**
 * What the author of an answer wrote: its text without quotations and signature, by the forms of Gmail, Outlook, Apple Mail and
 * Thunderbird in ten languages (English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, Russian, Japanese; some forms in
 * more). Each line is looked at a bounded number of times. Pure.
 */
import { textFromHtml } from './text-from-html.ts';

/** Lines that an introduction such as `On ... wrote:` may be wrapped to, and its characters. */
const LINES_OF_INTRODUCTION = 4;
const LONGEST_INTRODUCTION = 400;
/** Lines in which the fields above an unmarked quotation stand. */
const LINES_OF_FIELDS = 8;
/** Beyond this, a line is prose. */
const LONGEST_MARK = 200;

/** Ends the introduction of a quotation, whose date or address comes before. */
const WROTE =
  /(?:\bwrote|\bschrieb(?: [^:]{1,200})?|\b(?:a )?écrit|\bescribió|\b(?:ha )?scritto|\bescreveu|\bschreef(?: [^:]{1,200})?|\bpisze|\bnapisał(?:\(a\)|a)?|\bskrev(?: [^:]{1,200})?|\bkirjoitti|писал(?:\(а\)|а)?|пишет|написал(?:\(а\)|а)?|写道|書きました|のメッセージ|작성)\s?[:：]$/iu;
/** The same without a word for it, as Gmail has it in Russian and Japanese: a date, and the address at the end. */
const NAMED = /\d.*<[^<>\s]+@[^<>\s]+>[:：]$/;
/** Begins an introduction. */
const BEGINS =
  /^(?:On|Am|Le|El|Il|Em|Op|W dniu|Dnia|Den|pe|пн|вт|ср|чт|пт|сб|вс|В|\p{L}{2,9}[.,]|\d|[^\n]{1,100}<[^<>\s]{3,100}>|在|于)/u;

const AUTHOR = /^\*?(?:From|Von|De|Da|Van|Od|Från|Fra|От|差出人|发件人|보낸 사람)\s?[:：]\*?\s?\S/i;
const DATE =
  /^\*?(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado(?: el| em)?|Fecha|Data|Inviato|Verzonden|Wysłano|Data wysłania|Skickat|Sendt|Отправлено|Дата|送信日時|日付|发送时间|보낸 날짜)\s?[:：]/i;
const DASHED = /^(?:[-_]{5,}|-{2,12} ?\p{L}[\p{L}' ]{5,40} ?-{2,12})$/u;

/** Begins a line that phones and web mail add. */
const ADDED =
  /^(?:Sent from (?:my |Outlook|Mail|Yahoo)|Get Outlook for|Von meinem .{1,40} gesendet|Gesendet (?:von|mit) |Outlook für .{1,20} (?:beziehen|herunterladen)|Envoyé (?:de mon|depuis|à partir)|Télécharger Outlook|Obtenez Outlook|Enviado (?:desde|do meu|via)|Obtener Outlook|Obter o Outlook|Inviato da|Ottieni Outlook|Verstuurd vanaf|Verzonden (?:vanaf|met)|Outlook voor .{1,20} downloaden|Wysłan[eo] z|Pobierz program Outlook|Skickat från|Отправлено (?:с|из)|iPhoneから送信|发自我的)/iu;

/** A tag of an element that may be taken out, or the beginning of a comment. Each search ends at the next `<`. */
const TAG = /<(?:!--|(\/?)(blockquote|div|pre|span)(?=[\s>])([^<>]*)>)/gi;
/** A quotation in plain text, which leaves its introduction to the rules for text. */
const MARK = '<p>&gt;</p>';
/** Begins what Outlook has above an unmarked quotation. */
const HEADER_BLOCK = /\bid=["']?(?:divRplyFwdMsg|appendonsend|mail-editor-reference-message-container)\b/i;
/** Introductions of Thunderbird, and signatures. */
const UNSAID = /\bclass=["']?[^"'>]{0,100}\b(?:moz-cite-prefix|moz-signature|gmail_signature)/i;
const YAHOO_QUOTED = /\bclass=["']?[^"'>]{0,100}\byahoo_quoted/i;
const GMAIL_QUOTED = /\bclass=["']?gmail_quote/i;
const BLOCKQUOTE = /<blockquote[\s>]/i;
/** Editors indent with such a blockquote, which has words of the author. */
const INDENTED = /border(?:-[a-z]{1,10})?\s{0,5}:\s{0,5}none/i;
const CITED = /\btype=["']?cite|\bclass=["']?[^"'>]{0,100}quote/i;
/** Characters of html that an introduction of Gmail may have. */
const LONGEST_INTRODUCTION_HTML = 2000;

/** Returns what the author wrote; null for a mail without text and html. */
export function replyText(text: string | null, html: string | null): string | null {
  if (text !== null) return withoutQuotation(text);
  return html === null ? null : withoutQuotation(textFromHtml(withMarks(html)));
}

/** Returns the html with a mark in the place of each quotation, and without what mail programs add. */
function withMarks(html: string): string {
  let out = '';
  let from = 0;
  let inside: { name: string; depth: number } | null = null;
  TAG.lastIndex = 0;
  for (let match = TAG.exec(html); match !== null; match = TAG.exec(html)) {
    const [tag, slash, written, attributes = ''] = match;
    if (written === undefined) {
      const end = html.indexOf('-->', match.index);
      if (end < 0) break;
      TAG.lastIndex = end;
      continue;
    }
    const name = written.toLowerCase();
    const after = match.index + tag.length;
    if (inside !== null) {
      if (inside.name === name) inside.depth += slash === '/' ? -1 : 1;
      if (inside.depth > 0) continue;
      inside = null;
      from = after;
    } else if (slash === '') {
      const found = partOf(name, attributes, html.slice(after, after + LONGEST_INTRODUCTION_HTML));
      if (found === null) continue;
      out += html.slice(from, match.index);
      if (found === 'rest') return out;
      if (found === 'quotation') out += MARK;
      if (typeof found === 'number') from = TAG.lastIndex = after + found;
      else inside = { name, depth: 1 };
    }
  }
  return inside === null ? out + html.slice(from) : out;
}

/**
 * Returns what begins with this tag: a quotation, an element that is left out, the quoted rest of the mail, or an introduction of so
 * many characters after the tag; null for all else.
 */
function partOf(name: string, attributes: string, next: string): 'quotation' | 'unsaid' | 'rest' | number | null {
  if (name === 'blockquote') return INDENTED.test(attributes) && !CITED.test(attributes) ? null : 'quotation';
  if (attributes === '') return null;
  if (HEADER_BLOCK.test(attributes)) return 'rest';
  if (YAHOO_QUOTED.test(attributes)) return 'quotation';
  if (UNSAID.test(attributes)) return 'unsaid';
  if (name !== 'div' || !GMAIL_QUOTED.test(attributes)) return null;
  // Without a blockquote it is a mail that is passed on.
  const introduction = next.search(BLOCKQUOTE);
  return introduction < 0 || next.slice(0, introduction).includes('-----') ? 'rest' : introduction;
}

function withoutQuotation(text: string): string {
  const lines = text.split(/\r?\n/);
  const kept: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = (lines[at] ?? '').trimEnd();
    if (line.startsWith('>')) continue;
    if (line === '--' || beginsFields(lines, at)) break;
    const after = endOfIntroduction(lines, at);
    if (after !== null) {
      // Marked lines are left out one by one, since there may be an answer below each; a quotation without marks goes on to the end.
      if (!isQuoted(lines, after)) break;
      at = after - 1;
    } else if (!ADDED.test(line.slice(0, LONGEST_MARK))) kept.push(line);
  }
  // Outlook draws a line above its fields.
  while (/^(?:|[-_]{5,500})$/.test(kept.at(-1) ?? 'x')) kept.pop();
  return kept
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

/** Returns the place after an introduction that begins at this line, or null. */
function endOfIntroduction(lines: readonly string[], at: number): number | null {
  if (!BEGINS.test((lines[at] ?? '').slice(0, LONGEST_MARK))) return null;
  let joined = '';
  for (let end = at; end < Math.min(at + LINES_OF_INTRODUCTION, lines.length); end++) {
    const line = (lines[end] ?? '').trim();
    if (line === '' && end > at) return null;
    joined = `${joined} ${line}`.trim();
    if (joined.length > LONGEST_INTRODUCTION) return null;
    const isWhole = /[:：]$/.test(joined) && /\d|<[^<>\s]+>/.test(joined);
    if (isWhole && (WROTE.test(joined) || NAMED.test(joined))) return end + 1;
  }
  return null;
}

/** Returns whether the next line that is not empty is marked as quoted. */
function isQuoted(lines: readonly string[], from: number): boolean {
  for (let at = from; at < lines.length; at++) {
    const line = (lines[at] ?? '').trim();
    if (line !== '') return line.startsWith('>');
  }
  return true;
}

/** Returns whether the fields above an unmarked quotation begin at this line, or the line of dashes above them. */
function beginsFields(lines: readonly string[], at: number): boolean {
  const line = (lines[at] ?? '').trim();
  if (line.length > LONGEST_MARK) return false;
  const isDashed = DASHED.test(line);
  if (!isDashed && !AUTHOR.test(line)) return false;
  const near = lines.slice(at, at + LINES_OF_FIELDS).map((one) => one.trim().slice(0, LONGEST_MARK));
  return near.some((one) => AUTHOR.test(one)) && near.some((one) => DATE.test(one));
}
