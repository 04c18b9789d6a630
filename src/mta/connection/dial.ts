/**
 * From a host's addresses to an open session, for servers with broken TLS by the steps down (a reduced hello, then
 * plaintext) where no policy forbids them. What was learnt about a host's TLS is kept for three days.
 */
import { needKey } from './tls-policy.ts';
import type { TlsNeed } from './tls-policy.ts';
import { openSession } from './open-session.ts';
import type { OpenDeps, OpenResult, SessionTarget } from './open-session.ts';
import type { Hello } from './tls.ts';

/** How a host's handshake has to be made, as far as it failed the ordinary way: `none` means plaintext. */
type Workaround = Hello | 'none';

/** Bounded; loses the oldest first. Keys are `host:port`. */
export interface TlsMemory {
  get(host: string, now: number): Workaround;
  set(host: string, workaround: Workaround, now: number): void;
}

const MEMORY_MS = 3 * 86_400_000;
const MAX_HOSTS = 10_000;

export function createTlsMemory(): TlsMemory {
  const hosts = new Map<string, { workaround: Workaround; until: number }>();
  return {
    get(host, now) {
      const kept = hosts.get(host);
      return kept !== undefined && kept.until > now ? kept.workaround : 'full';
    },
    set(host, workaround, now) {
      hosts.delete(host);
      if (workaround === 'full') return;
      hosts.set(host, { workaround, until: now + MEMORY_MS });
      if (hosts.size <= MAX_HOSTS) return;
      for (const oldest of hosts.keys()) {
        hosts.delete(oldest);
        break;
      }
    },
  };
}

export type DialTarget = Omit<SessionTarget, 'hello'>;

/** Opens a session to one of the host's addresses. Another address is tried only if the connection itself failed. */
export async function dial(deps: OpenDeps & { memory: TlsMemory }, target: DialTarget): Promise<OpenResult> {
  const { memory, clock } = deps;
  const host = `${target.host}:${String(target.port)}`;
  const ladder = steps(memory.get(host, clock.now()), target.need);
  let result: OpenResult | null = null;
  for (const step of ladder) {
    // The address that answered is the one whose TLS is broken.
    const ips: readonly string[] = result === null ? target.ips : [result.ip];
    result = await openSession(deps, adapted({ ...target, ips }, step));
    if (result.kind === 'failed' && result.tlsBroken && target.signal?.aborted !== true) continue;
    // Only a session that stands shows that the step was needed and helped.
    if (result.kind === 'open' && step !== ladder[0]) memory.set(host, step, clock.now());
    return result;
  }
  if (result === null) throw new Error('the ladder has at least one step');
  return result;
}

/** A remembered workaround is where to begin; a policy that demands TLS never steps down to plaintext. */
function steps(known: Workaround, need: TlsNeed): readonly Workaround[] {
  if (need.mode === 'none') return ['none'];
  if (need.mode !== 'opportunistic') return known === 'reduced' ? ['reduced'] : ['full', 'reduced'];
  const all: readonly Workaround[] = ['full', 'reduced', 'none'];
  return all.slice(all.indexOf(known));
}

function adapted(target: SessionTarget, step: Workaround): SessionTarget {
  if (step === 'none') return { ...target, need: { ...target.need, mode: 'none' } };
  return { ...target, hello: step };
}

/** The pool key of a connection: what has to be equal for one message's connection to carry another's. */
export function connectionKey(
  target: Pick<DialTarget, 'host' | 'port' | 'localAddresses' | 'need' | 'ehlo' | 'auth'>,
): string {
  const { host, port, localAddresses = [], need, ehlo, auth } = target;
  return [`${host}:${String(port)}`, localAddresses.join(), ehlo, needKey(need), auth?.user ?? ''].join('|');
}
