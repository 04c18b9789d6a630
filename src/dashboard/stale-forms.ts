/** Forms that change what exists: one that was opened before another change does not undo that change unseen. */
import { createHash } from 'node:crypto';
import { Problem } from '../base/problem.ts';

/** Thrown for a form whose page did not show the present values. */
class StaleForm extends Problem {}

/**
 * Returns what a view hands to its forms as `seen`: a short hash of the values that a form changes. A form that is shown again
 * for another fault keeps the hash that it was opened with, because its reader has not been told of a change. The values are JSON values whose
 * members always come in the same order.
 */
export function seenIn(form: URLSearchParams, fault: Problem | null, values: unknown): string {
  const own = form.get('_seen');
  return own === null || fault === null || fault instanceof StaleForm ? hashOf(values) : own;
}

const hashOf = (values: unknown): string =>
  createHash('sha256').update(JSON.stringify(values)).digest('base64url').slice(0, 22);

/**
 * Returns whether the values are others than the form's page showed: another window, member or program has changed them since. A form
 * without the field, as a script sends it, counts as fresh. A change in the instant between this look and the write is not seen.
 */
export const isStale = (form: URLSearchParams, values: unknown): boolean =>
  form.has('_seen') && form.get('_seen') !== hashOf(values);

/** Throws a Problem for a stale form. Its page is shown with what was typed and the present hash, so that sending it again saves it. */
export function refuseStale(form: URLSearchParams, values: unknown): void {
  if (!isStale(form, values)) return;
  throw new StaleForm(
    'invalid_state',
    'This was changed after you opened the page, so nothing was saved. What you entered is still below. Open this page in a new window to see the change: saving again replaces it.',
  );
}
