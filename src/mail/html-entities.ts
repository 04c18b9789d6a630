/**
 * Character references of html (WHATWG HTML 13.5), for text parts made from html. Of the two thousand names those that
 * occur in mail; an unknown one stays as it is.
 */

/** U+00A0 to U+00FF, in order. */
const LATIN_1 =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro ' +
  'para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil ' +
  'Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave ' +
  'Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml ' +
  'igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute ' +
  'thorn yuml';

const NAMES = new Map<string, string>([
  ...LATIN_1.split(' ').map((name, index): [string, string] => [name, String.fromCharCode(0xa0 + index)]),
  ...Object.entries({
    amp: '&',
    lt: '<',
    gt: '>',
    quot: '"',
    apos: "'",
    AMP: '&',
    LT: '<',
    GT: '>',
    QUOT: '"',
    COPY: '©',
    REG: '®',
    OElig: 'Œ',
    oelig: 'œ',
    Scaron: 'Š',
    scaron: 'š',
    Yuml: 'Ÿ',
    fnof: 'ƒ',
    circ: 'ˆ',
    tilde: '˜',
    ensp: ' ',
    emsp: ' ',
    thinsp: ' ',
    hairsp: ' ',
    zwnj: '\u200c',
    zwj: '\u200d',
    lrm: '\u200e',
    rlm: '\u200f',
    ndash: '–',
    mdash: '—',
    lsquo: '‘',
    rsquo: '’',
    sbquo: '‚',
    ldquo: '“',
    rdquo: '”',
    bdquo: '„',
    dagger: '†',
    Dagger: '‡',
    bull: '•',
    hellip: '…',
    permil: '‰',
    prime: '′',
    Prime: '″',
    lsaquo: '‹',
    rsaquo: '›',
    euro: '€',
    trade: '™',
    larr: '←',
    uarr: '↑',
    rarr: '→',
    darr: '↓',
    harr: '↔',
    minus: '−',
    infin: '∞',
    ne: '≠',
    le: '≤',
    ge: '≥',
    asymp: '≈',
    sum: '∑',
    prod: '∏',
    radic: '√',
    loz: '◊',
    spades: '♠',
    clubs: '♣',
    hearts: '♥',
    diams: '♦',
    check: '✓',
    star: '☆',
    starf: '★',
    phone: '☎',
    num: '#',
    dollar: '$',
    percnt: '%',
    lpar: '(',
    rpar: ')',
    ast: '*',
    plus: '+',
    comma: ',',
    period: '.',
    sol: '/',
    colon: ':',
    semi: ';',
    equals: '=',
    quest: '?',
    commat: '@',
    lsqb: '[',
    bsol: '\\',
    rsqb: ']',
    lowbar: '_',
    grave: '`',
    lcub: '{',
    verbar: '|',
    vert: '|',
    rcub: '}',
    excl: '!',
    NewLine: '\n',
    Tab: '\t',
  }),
]);

/** References to 0x80-0x9F mean these, by what old pages intended (windows-1252); a dot has no meaning. */
const C1 = '€.‚ƒ„…†‡ˆ‰Š‹Œ.Ž..‘’“”•–—˜™š›œ.žŸ';
/**
 * What plain text has no use for: controls, no-break spaces, and what html does not show (soft hyphens, joiners of
 * nothing, byte order marks).
 */

const UNWANTED = /[\x00-\x08\x0b\x0e-\x1f\x7f-\xa0\u00ad\u034f\u200b\u2060\ufeff]/g;

/** Decodes references, makes no-break spaces plain ones and drops what cannot be seen. */
export function decodeEntities(text: string): string {
  if (!TO_DECODE.test(text)) return text;
  const decoded = text.includes('&') ? text.replace(/&(#?[a-zA-Z0-9]{1,24});/g, reference) : text;
  return decoded.replace(UNWANTED, (character) => (character === '\u00a0' ? ' ' : ''));
}

/** `&` or one of those: most text has neither. */
const TO_DECODE = /[&\x00-\x08\x0b\x0e-\x1f\x7f-\xa0\u00ad\u034f\u200b\u2060\ufeff]/;

function reference(whole: string, name: string): string {
  if (!name.startsWith('#')) return NAMES.get(name) ?? whole;
  const hexadecimal = name[1] === 'x' || name[1] === 'X';
  const digits = name.slice(hexadecimal ? 2 : 1);
  if (!(hexadecimal ? /^[0-9a-fA-F]+$/ : /^[0-9]+$/).test(digits)) return whole;
  return character(Number.parseInt(digits, hexadecimal ? 16 : 10));
}

function character(code: number): string {
  if (code >= 0x80 && code <= 0x9f) return C1[code - 0x80] === '.' ? '' : (C1[code - 0x80] ?? '');
  if (code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return '\ufffd';
  return String.fromCodePoint(code);
}
