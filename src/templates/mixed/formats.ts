/** Formatters of Intl: making one takes longer than using it a hundred times, so they are kept. */
import { LRUCache } from 'lru-cache';

const MOST_KEPT = 200;

/** `make` may throw a RangeError, for an unknown zone, currency or locale. */
function kept<Options, Format extends object>(
  make: (locale: string, options: Options) => Format,
): (locale: string, options: Options) => Format {
  const formats = new LRUCache<string, Format>({ max: MOST_KEPT });
  return (locale, options) => {
    const key = `${locale} ${JSON.stringify(options)}`;
    const known = formats.get(key);
    if (known !== undefined) return known;
    const made = make(locale, options);
    formats.set(key, made);
    return made;
  };
}

/** Throws a RangeError for an unknown zone or locale. */
export const dateFormat = kept(
  (locale: string, options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, options),
);

/** Throws a RangeError for an unknown currency or locale. */
export const numberFormat = kept(
  (locale: string, options: Intl.NumberFormatOptions) => new Intl.NumberFormat(locale, options),
);
