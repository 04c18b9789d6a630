/** A refusal of an SMTP command as a value: a reply code, and a text that begins with its enhanced status code (RFC 3463). */
import type { Problem, ProblemCode } from '../base/problem.ts';

export interface SmtpRefusal {
  code: number;
  text: string;
}

export const refuse = (code: number, text: string): SmtpRefusal => ({ code, text });

/** The refusal of a sign-in before TLS (RFC 4954 section 6). */
export const noKeyInClear: SmtpRefusal = refuse(538, '5.7.11 STARTTLS first: a key is not sent in the clear');

/** Refusals of the API's catalogue that are not simply a mail that cannot be taken. */
const codes: Partial<Record<ProblemCode, readonly [number, string]>> = {
  domain_not_verified: [550, '5.7.1'],
  domain_not_allowed: [550, '5.7.1'],
  sending_paused: [450, '4.7.1'],
  quota_exceeded: [450, '4.7.1'],
  rate_limited: [450, '4.7.1'],
  service_unavailable: [452, '4.3.1'],
  message_too_large: [552, '5.3.4'],
  too_many_recipients: [452, '4.5.3'],
  internal_error: [451, '4.3.0'],
};

export function refusalOf(problem: Problem): SmtpRefusal {
  const [code, enhanced] = codes[problem.code] ?? [554, '5.6.0'];
  return refuse(code, `${enhanced} ${problem.message} (${problem.code})`);
}
