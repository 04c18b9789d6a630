/** Formatters of Intl, cached: making one takes longer than a hundred uses. */
import { LRUCache } from 'lru-cache';

const MOST_FORMATS = 200;

/** Caches formatters. `make` may throw a RangeError for an unknown zone, currency or locale. */
function cached<Options, Format extends object>(
  make: (locale: string, options: Options) => Format,
): (locale: string, options: Options) => Format {
  const formats = new LRUCache<string, Format>({ max: MOST_FORMATS });
  return (locale, options) => {
    const key = `${locale} ${JSON.stringify(options)}`;
    const found = formats.get(key);
    if (found !== undefined) return found;
    const made = make(locale, options);
    formats.set(key, made);
    return made;
  };
}

/** Returns a date formatter. Throws a RangeError for an unknown zone or locale. */
export const dateFormat = cached(
  (locale: string, options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, options),
);

/** Returns a number formatter. Throws a RangeError for an unknown currency or locale. */
export const numberFormat = cached(
  (locale: string, options: Intl.NumberFormatOptions) => new Intl.NumberFormat(locale, options),
);
