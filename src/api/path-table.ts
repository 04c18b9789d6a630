/**
 * Finds what belongs to a method and a path in as many steps as the path has segments. A router that tries one pattern after
 * the other takes longer with each route that is added, and leaves a list of matches behind with each request. Pure.
 */

export interface Found<Item> {
  item: Item;
  /** The segments that stand for parameters, percent-decoded. */
  params: Record<string, string>;
}

export interface PathTable<Item> {
  /** Null where there is no such path, or not with this method. A literal segment goes before a parameter. */
  find(method: string, path: string): Found<Item> | null;
}

interface Entry<Item> {
  item: Item;
  /** Names of the parameters, in their order. */
  names: readonly string[];
}

interface Node<Item> {
  literals: Map<string, Node<Item>>;
  parameter: Node<Item> | null;
  /** What ends here, by method. */
  ends: Map<string, Entry<Item>>;
}

const newNode = <Item>(): Node<Item> => ({ literals: new Map(), parameter: null, ends: new Map() });
const nameOf = (segment: string): string | null => /^\{([^{}]+)\}$/.exec(segment)?.[1] ?? null;

/** Paths as the routes declare them: `/v1/messages/{id}`, a parameter being a whole segment that is not empty. */
export function createPathTable<Item extends { method: string; path: string }>(
  items: readonly Item[],
): PathTable<Item> {
  const root = newNode<Item>();
  for (const item of items) {
    const segments = item.path.split('/').slice(1);
    let node = root;
    for (const segment of segments) node = step(node, segment);
    node.ends.set(item.method, { item, names: segments.flatMap((segment) => nameOf(segment) ?? []) });
  }
  return {
    find(method, path) {
      const values: string[] = [];
      const entry = walk(root, method, path.split('/'), 1, values);
      if (entry === null) return null;
      const params: Record<string, string> = {};
      for (const [place, name] of entry.names.entries()) params[name] = decoded(values[place] ?? '');
      return { item: entry.item, params };
    },
  };
}

function step<Item>(node: Node<Item>, segment: string): Node<Item> {
  if (nameOf(segment) !== null) return (node.parameter ??= newNode());
  const known = node.literals.get(segment) ?? newNode<Item>();
  node.literals.set(segment, known);
  return known;
}

/** At each segment there are two ways at most, and routes differ in few: no path makes this long. */
function walk<Item>(
  node: Node<Item>,
  method: string,
  segments: readonly string[],
  at: number,
  values: string[],
): Entry<Item> | null {
  const segment = segments[at];
  if (segment === undefined) return node.ends.get(method) ?? null;
  const literal = node.literals.get(segment);
  const found = literal === undefined ? null : walk(literal, method, segments, at + 1, values);
  if (found !== null || node.parameter === null || segment === '') return found;
  values.push(segment);
  const entry = walk(node.parameter, method, segments, at + 1, values);
  if (entry === null) values.pop();
  return entry;
}

/** What cannot be decoded is refused before it is read (middleware/admit.ts). */
function decoded(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
