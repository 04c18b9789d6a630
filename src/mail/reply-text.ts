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

/** Places in the html of mail programs from which on it is quoted. */
const QUOTED_HTML = [
  '<div class="gmail_quote',
  '<div class="moz-cite-prefix',
  '<blockquote type="cite"',
  '<blockquote class="gmail_quote',
  '<div id="divRplyFwdMsg"',
  '<div id="appendonsend"',
  '<div id="mail-editor-reference-message-container"',
  '<div class="yahoo_quoted',
];

/** Returns what the author wrote; null for a mail without text and html. */
export function replyText(text: string | null, html: string | null): string | null {
  if (text !== null) return withoutQuotation(text);
  if (html === null) return null;
  const ends = QUOTED_HTML.map((mark) => html.indexOf(mark)).filter((at) => at >= 0);
  return withoutQuotation(textFromHtml(html.slice(0, Math.min(html.length, ...ends))));
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
