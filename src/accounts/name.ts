/** Checks the names that people give to accounts and keys. */
import { Problem } from '../base/problem.ts';

const LONGEST_NAME = 100;

/**
 * Returns the name without spaces around it. Throws `invalid_field` for an empty one and for control characters, and
 * `field_too_long`.
 */
export function checkName(name: string): string {
  const trimmed = name.trim();
  if (trimmed === '' || /\p{Cc}/u.test(trimmed)) {
    throw new Problem('invalid_field', 'The name needs at least one character, and no control characters.', {
      field: 'name',
    });
  }
  if (trimmed.length > LONGEST_NAME) {
    throw new Problem('field_too_long', `The name may have at most ${String(LONGEST_NAME)} characters.`, {
      field: 'name',
    });
  }
  return trimmed;
}
