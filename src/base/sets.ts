/** Sets and lists by name, none of which is empty. */

/** Returns the items by key, in their order; the keys have the order of their first items. */
export function groupBy<Key, Item>(items: Iterable<Item>, keyOf: (item: Item) => Key): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

export function addTo<Name, Item>(sets: Map<Name, Set<Item>>, name: Name, item: Item): void {
  const items = sets.get(name);
  if (items === undefined) sets.set(name, new Set([item]));
  else items.add(item);
}

export function takeFrom<Name, Item>(sets: Map<Name, Set<Item>>, name: Name, item: Item): void {
  const items = sets.get(name);
  items?.delete(item);
  if (items?.size === 0) sets.delete(name);
}
