/**
 * What a message can be found by that never changes, as names: `tag:sale`, `stream:broadcast`, `metadata:order:17`, `word:wel`.
 * Blocks keep for each name which of their messages have it (message-blocks.ts). Pure.
 */
export interface MessageFacts {
  stream: string;
  from_domain: string;
  /** Lower case. */
  sender: string;
  template_id: string | null;
  tags_json: string;
  metadata_json: string;
  test: number;
  /** `address_key` of each recipient. */
  recipients: readonly string[];
}

export const tagName = (tag: string): string => `tag:${tag}`;
export const streamName = (stream: string): string => `stream:${stream}`;
export const domainName = (domain: string): string => `domain:${domain}`;
export const senderName = (key: string): string => `from:${key}`;
export const recipientName = (key: string): string => `to:${key}`;
export const templateName = (id: string): string => `template:${id}`;
export const metadataName = (name: string, value: string): string => `metadata:${name}:${value}`;
export const testName = (test: boolean): string => `test:${test ? '1' : '0'}`;

/** Beginnings of words that have a name; what lies between is found by the next shorter one, which fits more. */
const BEGINNINGS = [1, 2, 3, 4, 6, 8];
/** So few letters that there cannot be many different beginnings. */
const SHORT = 2;

/** A name is kept for a block where this many of its messages have it; what fewer have is found as quickly by its index. */
export const FEWEST = 16;

/** Whether a block without this name has no message with it: then it is kept for a single message, too. */
export const isComplete = (name: string): boolean =>
  name.startsWith('test:') || (name.startsWith('word:') && name.length <= 'word:'.length + SHORT);

/** Every name of a message but those of its subject's words. */
export function namesOf(facts: MessageFacts): string[] {
  const names = [
    streamName(facts.stream),
    domainName(facts.from_domain),
    senderName(facts.sender),
    testName(facts.test === 1),
    ...listIn(facts.tags_json).map(tagName),
    ...facts.recipients.map(recipientName),
  ];
  if (facts.template_id !== null) names.push(templateName(facts.template_id));
  if (facts.metadata_json !== '{}')
    for (const [name, value] of Object.entries(JSON.parse(facts.metadata_json) as Record<string, string>))
      names.push(metadataName(name, value));
  return names;
}

const listIn = (json: string): readonly string[] => (json === '[]' ? [] : (JSON.parse(json) as string[]));

/** The names of a word or a beginning in lower case, the longest first: whatever begins with it has each of them. */
export function wordNames(word: string): string[] {
  const lengths = BEGINNINGS.filter((length) => length <= word.length);
  return [...new Set(lengths.reverse().map((length) => `word:${beginning(word, length)}`))];
}

/** Half a character cannot be stored. */
function beginning(word: string, length: number): string {
  const last = word.charCodeAt(length - 1);
  return word.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}
