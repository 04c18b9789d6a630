/** Names of lanes and hosts, as other parts of the engine and the operator see them. */

/** Returns whether a lane without a site is one of mail that needs no connection, such as that to the simulator. An MX may begin so too. */
export const isInnerLane = (lane: string): boolean => lane.startsWith('~');

export const laneName = (site: string, source: string | null): string => (source === null ? site : `${site}/${source}`);

/** Names a host for the pool. A host has one name for each source, since receivers count what comes from each address by itself. */
export const hostKey = ({ name, port }: { name: string; port: number }, source: string | null = null): string =>
  source === null ? `${name}:${String(port)}` : `${name}:${String(port)}/${source}`;
