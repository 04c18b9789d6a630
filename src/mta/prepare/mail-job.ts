/** The two steps of making a mail that cost most: composing its content and signing its header. Any thread can do them. */
import { signHeaders, type DkimSigner, type SignInput, type SigningKey } from '../../mail/dkim/sign.ts';
import type { Compose, Composed, StoredContent } from './compose.ts';

/** The signatures to make, with at least one key. */
export interface Unsigned extends Omit<SignInput, 'signers'> {
  keys: readonly SigningKey[];
}

/** The same if the content is not composed yet: `front` is the header up to the content's own lines. */
export type UnsignedFront = Pick<Unsigned, 'timestamp' | 'keys'> & { front: string };

export type MailJob =
  /** Nothing is signed if `sign` is null. */
  { kind: 'compose'; stored: StoredContent; sign: UnsignedFront | null } | { kind: 'sign'; unsigned: Unsigned };

export type MailAnswer =
  /** Others may share the content of a mail that cannot be signed. */
  | { kind: 'composed'; composed: Composed; signed: Signed }
  | Signed
  /** The content cannot be encoded, which no later try could either. */
  | { kind: 'unencodable'; why: string };

/** `signatures` are the DKIM-Signature lines. */
export type Signed = { kind: 'signed'; signatures: string } | { kind: 'unsigned'; why: string };

/** Makes the function that does jobs where it is called, with signers of its own. */
export function createMailMaker(
  compose: Compose,
  signerOf: (key: SigningKey) => DkimSigner,
): (job: MailJob) => Promise<MailAnswer> {
  async function sign({ keys, ...input }: Unsigned): Promise<Signed> {
    try {
      return { kind: 'signed', signatures: await signHeaders({ ...input, signers: keys.map(signerOf) }) };
    } catch (error) {
      return { kind: 'unsigned', why: whyOf(error) };
    }
  }

  return async (job) => {
    if (job.kind === 'sign') return sign(job.unsigned);
    try {
      const composed = await compose(job.stored);
      if (job.sign === null) return { kind: 'composed', composed, signed: { kind: 'signed', signatures: '' } };
      const { front, ...rest } = job.sign;
      const { content, bodyHash } = composed;
      return { kind: 'composed', composed, signed: await sign({ ...rest, head: front + content.headers, bodyHash }) };
    } catch (error) {
      return { kind: 'unencodable', why: whyOf(error) };
    }
  };
}

const whyOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
