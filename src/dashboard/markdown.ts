/**
 * The part of Markdown that our own list of changes is written in, as HTML: headings, lists, paragraphs, code, strong words and
 * links. Everything is text until it is known to be one of these; a link that leads into the folder of documents, which is not
 * served, stays words. Pure, and linear in the text.
 */

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** Code, strong words, a link: what is in none of them is text. Bounded, hence linear. */
const INLINE = /`([^`]{1,500})`|\*\*([^*]{1,500})\*\*|\[([^\]]{1,300})\]\(([^)\s]{1,500})\)/g;

function inline(text: string): string {
  let html = '';
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, code, strong, words, target] = found;
    html += escaped(text.slice(at, found.index));
    if (code !== undefined) html += `<code>${escaped(code)}</code>`;
    else if (strong !== undefined) html += `<strong>${inline(strong)}</strong>`;
    else html += link(words ?? '', target ?? '');
    at = found.index + all.length;
  }
  return html + escaped(text.slice(at));
}

const link = (words: string, target: string): string =>
  /^https?:\/\//.test(target) ? `<a href="${escaped(target)}" rel="noreferrer">${inline(words)}</a>` : inline(words);

type Block = { kind: 'heading'; level: number; text: string } | { kind: 'list' | 'text'; items: string[] };

/** Lines that belong together. A line that begins further in goes on with the one before. */
function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  let open: { kind: 'list' | 'text'; items: string[] } | null = null;
  const add = (kind: 'list' | 'text', text: string): void => {
    if (open?.kind !== kind) blocks.push((open = { kind, items: [] }));
    open.items.push(text);
  };
  for (const line of markdown.split('\n')) {
    const [, marks, heading] = /^(#{1,6}) +(\S.*)$/.exec(line) ?? [];
    const [, item] = /^[-*] +(\S.*)$/.exec(line) ?? [];
    const text = line.trim();
    const last = (open as Block | null)?.kind === 'list' ? blocks.at(-1) : undefined;
    if (text === '') open = null;
    else if (marks !== undefined && heading !== undefined) {
      open = null;
      blocks.push({ kind: 'heading', level: marks.length, text: heading });
    } else if (item !== undefined) add('list', item);
    else if (last?.kind === 'list' && /^\s/.test(line)) last.items.push(`${last.items.pop() ?? ''} ${text}`);
    else add('text', text);
  }
  return blocks;
}

/** Headings go no higher than h2: the page has its own h1. */
export function markdownHtml(markdown: string): string {
  return blocksOf(markdown)
    .map((block) => {
      if (block.kind === 'heading') {
        const name = `h${String(Math.max(2, block.level))}`;
        return `<${name}>${inline(block.text)}</${name}>`;
      }
      if (block.kind === 'list') return `<ul>${block.items.map((item) => `<li>${inline(item)}</li>`).join('\n')}</ul>`;
      return `<p>${inline(block.items.join(' '))}</p>`;
    })
    .join('\n');
}
