/** From a stored content to what goes on the wire after the header of each message, with the hash that DKIM signs. */
import { relaxedBodyHash } from '../mail/dkim/canonicalize.ts';
import { encodeContent, textFromHtml, type EncodedContent, type MimeContent } from '../mail/mime-write.ts';

export interface StoredContent extends MimeContent {
  id: string;
  /** Whether a text part is derived from the html where there is none. */
  autoText: boolean;
}

export interface Composed {
  content: EncodedContent;
  bodyHash: string;
}

/** Throws where the content cannot be encoded, which then no later try could either. */
export async function compose({ id, html, text, attachments, autoText }: StoredContent): Promise<Composed> {
  const plain = text ?? (autoText && html !== null ? textFromHtml(html) : null);
  const content = await encodeContent({ html, text: plain, attachments }, id);
  return { content, bodyHash: relaxedBodyHash(content.body) };
}
