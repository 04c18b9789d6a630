/**
 * A form that came too late: its session has ended, it was opened under an earlier sign-in, or for another account than the one
 * looked at now. What was typed travels on in hidden fields, through the sign-in where one is needed, until somebody says that it
 * shall be sent after all. Nothing is stored here, and passwords and codes never travel. Pure.
 */
import { placeWithin } from './links.ts';

export interface LateForm {
  /** Where it was to go, and the page it was filled in on. */
  to: string;
  back: string;
  /** Id of the account it was filled in for; null where it did not matter. */
  ofAccount: string | null;
  fields: readonly { name: string; value: string }[];
  /** Whether there was something that has to be typed again. */
  hasSecrets: boolean;
}

export type LateReason = 'ended' | 'sign-in' | 'account';

/** Thrown to get out of all layers. */
export class TooLate extends Error {
  readonly why: LateReason;
  readonly form: LateForm;
  constructor(why: LateReason, form: LateForm) {
    super('a form came too late');
    this.why = why;
    this.form = form;
  }
}

const PREFIX = 'kept:';
const MOST_FIELDS = 500;

const isSecret = (name: string): boolean =>
  name.startsWith('password') || name === 'code' || name === 'recovery_code' || name === 'offer';

/** What is kept of a form that was to go to `to`. */
export function lateForm(to: string, back: string, form: URLSearchParams): LateForm {
  const typed = [...form].filter(([name]) => !name.startsWith('_')).slice(0, MOST_FIELDS);
  return {
    to: placeWithin(to),
    back: placeWithin(back),
    ofAccount: form.get('_account'),
    fields: typed.filter(([name]) => !isSecret(name)).map(([name, value]) => ({ name, value })),
    hasSecrets: typed.some(([name]) => isSecret(name)),
  };
}

/** The hidden fields of the sign-in that carry it on. */
export const carried = ({ to, back, ofAccount, fields, hasSecrets }: LateForm): { name: string; value: string }[] => [
  { name: 'kept_to', value: to },
  { name: 'kept_back', value: back },
  ...(ofAccount === null ? [] : [{ name: 'kept_account', value: ofAccount }]),
  ...(hasSecrets ? [{ name: 'kept_secrets', value: '1' }] : []),
  ...fields.map(({ name, value }) => ({ name: PREFIX + name, value })),
];

/** What a sign-in carried on, or null. */
export function lateFormIn(form: URLSearchParams): LateForm | null {
  const to = form.get('kept_to');
  if (to === null || placeWithin(to) === '/') return null;
  const fields = [...form].filter(([name]) => name.startsWith(PREFIX)).slice(0, MOST_FIELDS);
  return {
    to: placeWithin(to),
    back: placeWithin(form.get('kept_back')),
    ofAccount: form.get('kept_account'),
    fields: fields.map(([name, value]) => ({ name: name.slice(PREFIX.length), value })),
    hasSecrets: form.get('kept_secrets') !== null,
  };
}

const SHOWN_CHARACTERS = 200;

/** For the page that asks whether to send it after all. */
export const lateData = (form: LateForm): object => ({
  ...form,
  shown: form.fields
    .filter(({ value }) => value.trim() !== '')
    .map(({ name, value }) => ({
      name,
      value: value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value,
    })),
});
