/** The code blocks of a Markdown document, each with the comment that stands directly before it. */

export interface DocBlock {
  /** The word behind the fence: `sh`, `json`, `text`. */
  language: string;
  text: string;
  /** The text of an HTML comment directly above, or null. */
  comment: string | null;
  /** Line of the fence, from 1. */
  line: number;
  /** The last heading above. */
  heading: string;
}

export function docBlocks(markdown: string): DocBlock[] {
  const blocks: DocBlock[] = [];
  let open: DocBlock | null = null;
  let heading = '';
  let comment: string | null = null;
  for (const [index, line] of markdown.split('\n').entries()) {
    if (open !== null) {
      if (line.startsWith('```')) open = null;
      else open.text += `${line}\n`;
      continue;
    }
    const language = /^```(\w*)$/.exec(line)?.[1];
    if (language !== undefined) {
      open = { language, text: '', comment, line: index + 1, heading };
      blocks.push(open);
    }
    heading = /^#+ (.+)$/.exec(line)?.[1] ?? heading;
    if (line.trim() !== '') comment = /^<!-- (.+) -->$/.exec(line)?.[1] ?? null;
  }
  if (open !== null) throw new Error(`the block of line ${String(open.line)} has no end`);
  return blocks;
}
