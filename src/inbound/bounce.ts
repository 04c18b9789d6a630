/** What a notice says of one recipient -> code, status, class and reason, by the same rules as replies in a session. */
import type { ReportAction, ReportedRecipient } from '../mail/delivery-report.ts';
import { classify } from '../messages/classify.ts';
import type { Verdict } from '../messages/delivery.ts';
import type { BounceWords } from './bounce-words.ts';
import { findDiagnostic, readDiagnostic, statusOfWords, type Diagnostic } from './diagnostic.ts';
import type { FoundRecipient } from './finding.ts';
import type { NamedRecipient } from './named-recipients.ts';
import type { Notice } from './notice.ts';

/** RFC 3463 section 3.5 and what servers use beside it: the mail grew too old. */
const EXPIRED = new Set(['4.4.7', '5.4.7']);

/** A recipient of a delivery report; the prose of the notice helps out where the fields say nothing. */
export function reportedRecipient(reported: ReportedRecipient, notice: Notice, words: BounceWords): FoundRecipient {
  const { finalRecipient, originalRecipient, action, status } = reported;
  const quoted = reported.diagnostic === null ? null : readDiagnostic(reported.diagnostic);
  const diagnostic = saysWhy(quoted, words) ?? (isVague(status) ? findDiagnostic(notice.lines, words) : null) ?? quoted;
  const address = finalRecipient ?? originalRecipient ?? '';
  const done = action ?? 'failed';
  return {
    address,
    original:
      originalRecipient === null || originalRecipient.toLowerCase() === address.toLowerCase()
        ? null
        : originalRecipient,
    ...judged(done, status, diagnostic, notice, words),
    diagnostic: reported.diagnostic ?? diagnostic?.text ?? null,
  };
}

/** A recipient of a notice in prose. */
export function namedRecipient(
  { address, lines }: NamedRecipient,
  action: 'failed' | 'delayed',
  notice: Notice,
  words: BounceWords,
): FoundRecipient {
  const diagnostic = findDiagnostic(lines, words) ?? findDiagnostic(notice.lines, words);
  return { address, original: null, ...judged(action, null, diagnostic, notice, words) };
}

function judged(
  action: ReportAction,
  reported: string | null,
  diagnostic: Diagnostic | null,
  { subject, lines }: Notice,
  words: BounceWords,
): Omit<FoundRecipient, 'address' | 'original'> {
  const quoted = diagnostic?.enhanced ?? null;
  const inWords = (): string | null =>
    statusOfWords(diagnostic?.text ?? '', words) ??
    (diagnostic === null ? statusOfWords(`${subject}\n${lines.join('\n')}`, words) : null);
  const status = exact(quoted) ?? exact(reported) ?? inWords() ?? quoted ?? reported;
  const code = diagnostic?.code ?? null;
  const text = diagnostic?.text ?? '';
  const isOver = action === 'failed' || action === 'delayed';
  return {
    action,
    status,
    diagnostic: text === '' ? null : text,
    code,
    verdict: isOver ? verdictOf(action, { status, reported }, code, text) : null,
  };
}

function verdictOf(
  action: 'failed' | 'delayed',
  { status, reported }: { status: string | null; reported: string | null },
  code: number | null,
  text: string,
): Verdict {
  if (status !== null && EXPIRED.has(status)) return { class: 'soft', reason: 'expired' };
  // A notice that quotes no reply stands for one all the same: what failed is final, unless its status says otherwise.
  const level = action === 'delayed' || (reported ?? status)?.startsWith('4') === true ? 450 : 550;
  return classify({ phase: 'report', code: code ?? level, enhanced: status, text });
}

/** The status where it says more than success or failure. */
const exact = (status: string | null): string | null => (isVague(status) ? null : status);

/** `5.0.0`, `5.1.0` and protocol errors (`5.5.0`) are what gateways write that know nothing, or hang on any reply. */
const isVague = (status: string | null): boolean => status === null || /^[245]\.(?:[05]\.|[12]\.0$)/.test(status);

const saysWhy = (diagnostic: Diagnostic | null, words: BounceWords): Diagnostic | null =>
  diagnostic === null ||
  (diagnostic.code === null && diagnostic.enhanced === null && statusOfWords(diagnostic.text, words) === null)
    ? null
    : diagnostic;
