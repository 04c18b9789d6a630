/**
 * From a stored content to what goes on the wire after the header of each message, with the hash that DKIM signs. The text
 * part is made from the html as the sender wrote it, before anything is tracked there.
 */
import { relaxedBodyHash } from '../mail/dkim/canonicalize.ts';
import { encodeContent, textFromHtml, type EncodedContent, type MimeContent } from '../mail/mime-write.ts';
import { planHtml, type HtmlPlan } from '../tracking/rewrite.ts';
import { trackedHtml, type Tracking } from '../tracking/track.ts';

export interface StoredContent extends MimeContent {
  id: string;
  /** Whether a text part is derived from the html where there is none. */
  autoText: boolean;
  /** What is tracked in the copy of one recipient; absent where nothing is, and the content is then the same for all. */
  tracking?: Tracking;
}

export interface Composed {
  content: EncodedContent;
  bodyHash: string;
}

/** Rejects where the content cannot be encoded, which then no later try could either. */
export type Compose = (stored: StoredContent) => Promise<Composed>;

/** What was read in a content that is tracked: good for all its recipients. */
interface Reading {
  plan: HtmlPlan;
  plain: string | null;
}

/** `remembered`: of so many tracked contents, the last ones used, the reading is kept, as many recipients follow one another. */
export function createCompose({ remembered }: { remembered: number }): Compose {
  const readings = new Map<string, Reading>();

  function readingOf(stored: StoredContent, html: string): Reading {
    const { id } = stored;
    const reading = readings.get(id) ?? { plan: planHtml(html), plain: plainOf(stored) };
    readings.delete(id);
    readings.set(id, reading);
    for (const oldest of readings.keys()) {
      if (readings.size <= remembered) break;
      readings.delete(oldest);
    }
    return reading;
  }

  return async (stored) => {
    const { id, html, attachments, tracking } = stored;
    if (tracking === undefined || html === null) return encode({ html, text: plainOf(stored), attachments }, id);
    const { plan, plain } = readingOf(stored, html);
    return encode({ html: trackedHtml(html, plan, tracking), text: plain, attachments }, id);
  };
}

const plainOf = ({ html, text, autoText }: StoredContent): string | null =>
  text ?? (autoText && html !== null ? textFromHtml(html) : null);

async function encode(content: MimeContent, id: string): Promise<Composed> {
  const encoded = await encodeContent(content, id);
  return { content: encoded, bodyHash: relaxedBodyHash(encoded.body) };
}
