/** Character references of html (WHATWG HTML 13.5), for text parts made from html. */
import { decodeHTMLStrict } from 'entities/decode';

/**
 * Characters that plain text has no use for: controls, no-break spaces, and what html does not show (soft hyphens, joiners of
 * nothing, byte order marks).
 */
const UNWANTED = /[\x00-\x08\x0b\x0e-\x1f\x7f-\xa0\u00ad\u034f\u200b\u2060\ufeff]/g;

/** Decodes references, makes no-break spaces plain ones and drops what cannot be seen. */
export function decodeEntities(text: string): string {
  if (!TO_DECODE.test(text)) return text;
  const decoded = text.includes('&') ? decodeHTMLStrict(text) : text;
  return decoded.replace(UNWANTED, (character) => (character === '\u00a0' ? ' ' : ''));
}

/** `&` or an unwanted character: most text has neither. */
const TO_DECODE = /[&\x00-\x08\x0b\x0e-\x1f\x7f-\xa0\u00ad\u034f\u200b\u2060\ufeff]/;
