/**
 * The parameters of MAIL and RCPT: RFC 5321 section 4.1.1.11 has those refused that belong to no extension we offer. A client
 * that relies on an extension we do not have (a delivery report, a time to hold the mail until) must not get 250. Pure.
 */
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

/** Parameters in the form of smtp-server: names in capitals, `true` for one without a value. */
export type EsmtpParameters = Readonly<Record<string, string | true>>;

/** Extensions that EHLO offers beyond those of every listener. */
export interface Offered {
  /** AUTH (RFC 4954) and REQUIRETLS (RFC 8689): who submits has them, other mail hosts have not. */
  isSubmission: boolean;
  smtputf8: boolean;
}

/** RFC 4954 section 5: `<>` or a mailbox, with its xtext decoded. curl writes the mailbox in angle brackets. */
const AUTH_VALUE = /^(?:<>|<[^\s<>@]{1,256}@[^\s<>@]{1,255}>|[^\s<>@]{1,256}@[^\s<>@]{1,255})$/;

/** Checks the parameters of MAIL. Values of SIZE, BODY, SMTPUTF8 and REQUIRETLS have been looked at by smtp-server before. */
export function checkMailParameters(given: EsmtpParameters, { isSubmission, smtputf8 }: Offered): SmtpRefusal | null {
  const known = ['SIZE', 'BODY', ...(smtputf8 ? ['SMTPUTF8'] : []), ...(isSubmission ? ['AUTH', 'REQUIRETLS'] : [])];
  const unknown = unknownOf(given, known);
  if (unknown !== null) return unknown;
  const auth = given['AUTH'];
  if (auth === undefined || (auth !== true && AUTH_VALUE.test(auth))) return null;
  return refuse(501, '5.5.4 AUTH= takes <> or an address');
}

/** Checks the parameters of RCPT: none of the extensions that we offer has any. */
export const checkRecipientParameters = (given: EsmtpParameters): SmtpRefusal | null => unknownOf(given, []);

function unknownOf(given: EsmtpParameters, known: readonly string[]): SmtpRefusal | null {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return null;
  const shown = /^[A-Z0-9][A-Z0-9-]{0,63}$/.test(unknown) ? ` ${unknown}` : '';
  return refuse(555, `5.5.4 the parameter${shown} is not known here`);
}
