/** Reads a refusal that a person pasted or that was stored as text. */
import { readDiagnostic } from '../../mail/diagnostic.ts';
import { enhancedOf } from '../../mail/smtp-reply.ts';
import type { Refusal } from './classify.ts';

/** The start of each line of a reply (RFC 5321 section 4.2). */
const REPLY = /^([45]\d\d)(?:[ -]|$)/;

/**
 * Reads a line into a refusal. A line that begins with a code is a server's reply, to RCPT unless it says otherwise: as in a
 * session, the first code decides, whatever codes of other servers it quotes. Any other line is read as the diagnostic of a
 * bounce mail.
 */
export function readRefusal(line: string, phase: Refusal['phase'] | null = null): Refusal {
  const diagnostic = readDiagnostic(line);
  const code = REPLY.exec(line)?.[1];
  if (code === undefined)
    return { phase: phase ?? 'report', code: diagnostic.code, enhanced: diagnostic.enhanced, text: line };
  const text = line.slice(code.length + 1);
  return { phase: phase ?? diagnostic.phase ?? 'rcpt', code: Number(code), enhanced: enhancedOf([text]), text };
}
