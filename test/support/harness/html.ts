/** Finds the faults of a page's form: elements that are not closed or close another one, ids that occur twice, unlabelled fields. */
const VOID = new Set(['br', 'hr', 'img', 'input', 'link', 'meta', 'col', 'wbr']);
/** Elements whose end tag HTML lets one leave out, and what ends them. */
const OPTIONAL = new Set(['li', 'dt', 'dd', 'p', 'td', 'th', 'tr', 'thead', 'tbody', 'option']);

interface Tag {
  name: string;
  text: string;
}

export function htmlFaults(html: string): string[] {
  const faults: string[] = [];
  const open: Tag[] = [];
  const ids = new Set<string>();
  const body = html
    .replace(/<!--[\s\S]*?-->/g, '')
    .replace(/(<(script|textarea|title|style)\b[^>]*>)[\s\S]*?(<\/\2>)/g, '$1$3');
  for (const [text, slash, name = '', rest = ''] of body.matchAll(
    /<(\/?)([a-z][a-z0-9]*)((?:[^<>"']|"[^"]*"|'[^']*')*)>/gi,
  )) {
    const id = /\sid="([^"]*)"/.exec(rest)?.[1];
    if (id !== undefined && ids.has(id)) faults.push(`the id ${id} stands twice`);
    if (id !== undefined) ids.add(id);
    if (slash === '/') close(open, name, faults);
    else if (!VOID.has(name) && !rest.endsWith('/')) open.push({ name, text });
  }
  for (const { name, text } of open) if (!OPTIONAL.has(name)) faults.push(`${text} is never closed`);
  if (
    /\{\{|\[object Object\]|>[^<]{0,40}undefineds?<|>NaN/.test(
      html.replace(/\{\{7\*7\}\}|\{\{ \}\}|\{\{ ?name ?\}\}|\{\{#each items\}\}/g, ''),
    )
  )
    faults.push(
      `a value shows through: ${/.{30}(?:\{\{|\[object Object\]|>[^<]{0,40}undefineds?<|>NaN).{30}/s.exec(html)?.[0] ?? ''}`,
    );
  faults.push(...unlabelled(body));
  return faults;
}

function close(open: Tag[], name: string, faults: string[]): void {
  while (open.length > 0) {
    const last = open.pop();
    if (last === undefined || last.name === name) return;
    if (!OPTIONAL.has(last.name)) {
      faults.push(`</${name}> closes ${last.text}`);
      return;
    }
  }
  faults.push(`</${name}> closes nothing`);
}

/** WCAG 2.2, 1.3.1 and 4.1.2: a field has a name. */
function unlabelled(body: string): string[] {
  const withoutLabels = body.replace(/<label\b[\s\S]*?<\/label>/g, '');
  const named = new Set([...body.matchAll(/<label[^>]* for="([^"]+)"/g)].map(([, id]) => id));
  return [...withoutLabels.matchAll(/<(?:input|select|textarea)\b(?:[^<>"']|"[^"]*"|'[^']*')*>/g)]
    .map(([tag]) => tag)
    .filter((tag) => !/type="hidden"|aria-label=/.test(tag) && !named.has(/\sid="([^"]+)"/.exec(tag)?.[1] ?? ''))
    .map((tag) => `${tag} has no label`);
}
