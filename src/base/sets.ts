/** Sets by name, in which no set is empty. */

/** Adds to the set of this name. */
export function addTo<Name, Item>(sets: Map<Name, Set<Item>>, name: Name, item: Item): void {
  const items = sets.get(name);
  if (items === undefined) sets.set(name, new Set([item]));
  else items.add(item);
}

/** Removes from the set of this name. */
export function takeFrom<Name, Item>(sets: Map<Name, Set<Item>>, name: Name, item: Item): void {
  const items = sets.get(name);
  items?.delete(item);
  if (items?.size === 0) sets.delete(name);
}
