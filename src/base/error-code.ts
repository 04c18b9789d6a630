/** The codes that Node.js and libraries give to errors, such as `ENOENT`. Pure. */

/** Returns the code of an error, or an empty text if it has none. */
export const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '');

/** Returns whether an error says that there is no such file or folder. */
export const isMissing = (error: unknown): boolean => codeOf(error) === 'ENOENT';
