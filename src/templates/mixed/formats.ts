/** Formatters of Intl: making one takes longer than using it a hundred times, so they are kept. */

const MOST_KEPT = 200;

/** `make` may throw a RangeError, for an unknown zone, currency or locale. */
function kept<Options, Format>(
  make: (locale: string, options: Options) => Format,
): (locale: string, options: Options) => Format {
  const formats = new Map<string, Format>();
  return (locale, options) => {
    const key = `${locale} ${JSON.stringify(options)}`;
    const known = formats.get(key);
    if (known !== undefined) return known;
    const made = make(locale, options);
    if (formats.size >= MOST_KEPT) formats.clear();
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
