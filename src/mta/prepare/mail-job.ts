/** The two steps of making a mail that cost most: composing its content and signing its header. Any thread can do them. */
import { signHeaders, type DkimSigner, type SignInput, type SigningKey } from '../../mail/dkim/sign.ts';
import type { Compose, Composed, StoredContent } from './compose.ts';

/** The signatures to make, with at least one key. */
export interface Unsigned extends Omit<SignInput, 'signers'> {
  keys: readonly SigningKey[];
}

/** The same where the content is not composed yet: `front` is the header up to the content's own lines. */
export type UnsignedFront = Pick<Unsigned, 'timestamp' | 'keys'> & { front: string };

export type MailJob =
  /** Nothing is signed where `sign` is null. */
  { kind: 'compose'; stored: StoredContent; sign: UnsignedFront | null } | { kind: 'sign'; unsigned: Unsigned };

export type MailAnswer =
  /** `signatures` are the DKIM-Signature lines. */
  | { kind: 'composed'; composed: Composed; signatures: string }
  | { kind: 'signed'; signatures: string }
  /** The content cannot be encoded, which no later try could either. */
  | { kind: 'unencodable'; why: string }
  | { kind: 'unsigned'; why: string };

/** Makes the function that does jobs where it is called, with signers of its own. */
export function createMailMaker(
  compose: Compose,
  signerOf: (key: SigningKey) => DkimSigner,
): (job: MailJob) => Promise<MailAnswer> {
  const sign = ({ keys, ...input }: Unsigned): Promise<string> =>
    signHeaders({ ...input, signers: keys.map(signerOf) });

  return async (job) => {
    let isComposed = false;
    try {
      if (job.kind === 'sign') return { kind: 'signed', signatures: await sign(job.unsigned) };
      const composed = await compose(job.stored);
      isComposed = true;
      if (job.sign === null) return { kind: 'composed', composed, signatures: '' };
      const { front, ...rest } = job.sign;
      const { content, bodyHash } = composed;
      const signatures = await sign({ ...rest, head: front + content.headers, bodyHash });
      return { kind: 'composed', composed, signatures };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return { kind: job.kind === 'sign' || isComposed ? 'unsigned' : 'unencodable', why };
    }
  };
}
