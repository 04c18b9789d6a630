/** A refusal that somebody pastes or has noted down, made what the delivery engine would have heard of it. */
import { readDiagnostic } from '../../mail/diagnostic.ts';
import { enhancedOf } from '../../mail/smtp-reply.ts';
import type { Refusal } from './classify.ts';

/** How each line of a reply begins (RFC 5321 section 4.2). */
const REPLY = /^([45]\d\d)(?:[ -]|$)/;

/**
 * A line that begins with a code is a server's reply, to RCPT unless it says otherwise: its first code decides, as it does in a
 * session, whatever codes of other servers it quotes. Any other line is read as the diagnostic of a bounce mail.
 */
export function refusalOf(line: string, phase: Refusal['phase'] | null = null): Refusal {
  const told = readDiagnostic(line);
  const code = REPLY.exec(line)?.[1];
  if (code === undefined) return { phase: phase ?? 'report', code: told.code, enhanced: told.enhanced, text: line };
  const text = line.slice(code.length + 1);
  return { phase: phase ?? told.phase ?? 'rcpt', code: Number(code), enhanced: enhancedOf([text]), text };
}
