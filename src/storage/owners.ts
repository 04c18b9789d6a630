/**
 * Divides the work among the nodes. Each recipient domain and webhook endpoint has one owner, by rendezvous hashing: of the nodes that take work, the
 * one whose name gives the highest hash with the key. When a node joins or ends only its keys move, and one started again under its name has the same
 * keys. Two nodes may differ for some seconds about the owner. What they write decides then: a delivery is claimed once, and an event may reach an
 * endpoint twice.
 */
import type { NodeRecord, Nodes } from './nodes.ts';

/** A node that takes work, with the state of the hash after its name. */
interface Candidate {
  readonly node: NodeRecord;
  readonly seed: number;
}

export class Owners {
  private readonly nodes: Pick<Nodes, 'epoch' | 'list'>;
  private readonly listeners = new Set<() => void>();
  private candidates: readonly Candidate[] = [];

  constructor(nodes: Pick<Nodes, 'epoch' | 'list' | 'onChange'>) {
    this.nodes = nodes;
    this.read();
    nodes.onChange(() => {
      this.read();
      for (const listener of this.listeners) listener();
    });
  }

  /** Returns whether this node has the key: a domain in lower case, or the id of a webhook endpoint. Costs about 50 ns a node. */
  isOurs(key: string): boolean {
    return this.ownerOf(key)?.epoch === this.nodes.epoch;
  }

  /** Returns the node that has the key; null while no node delivers. */
  ownerOf(key: string): NodeRecord | null {
    const [first, ...others] = this.candidates;
    if (first === undefined) return null;
    if (others.length === 0) return first.node;
    let best = first;
    let highest = hash(first.seed, key);
    for (const one of others) {
      const value = hash(one.seed, key);
      // Equal hashes go to the name that comes first, at every node.
      if (value < highest || (value === highest && one.node.name > best.node.name)) continue;
      best = one;
      highest = value;
    }
    return best.node;
  }

  names(): string[] {
    return this.candidates.map(({ node }) => node.name);
  }

  /** Calls the listener after keys may have moved. Returns the function that ends this. */
  onChange(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }

  private read(): void {
    const servers = this.nodes.list().filter(({ isCommand }) => !isCommand);
    this.candidates = takersOf(servers).map((node) => ({ node, seed: seedOf(node.name) }));
  }
}

/** Returns the servers that take work. Those that drain do not, unless all that deliver drain: mail does not wait because of it. */
export function takersOf(servers: readonly NodeRecord[]): readonly NodeRecord[] {
  const delivering = servers.filter(({ isDelivering }) => isDelivering);
  const takers = delivering.filter(({ isDraining }) => !isDraining);
  return takers.length > 0 ? takers : delivering;
}

/** The offset and the prime of FNV-1a for 32 bits. */
const OFFSET = 0x811c9dc5;
const PRIME = 0x01000193;

function add(state: number, text: string): number {
  let value = state;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), PRIME);
  return value;
}

const seedOf = (name: string): number => add(OFFSET, `${name} `);

/** FNV-1a, and the last steps of MurmurHash3, without which the order of two nodes would hang on the last characters of the key. */
function hash(seed: number, key: string): number {
  let value = add(seed, key);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
