/**
 * Asks several servers one DNS question, in turn, until one gives a usable answer or the deadline passes. A server that
 * is slow keeps its socket, so a late answer still counts; after one that fails the next is asked at once.
 */
import { randomInt } from 'node:crypto';
import type { Clock, Timer } from '../base/clock.ts';
import { askOverTcp, askOverUdp } from './dns-exchange.ts';
import type { Asked, ServerAddress } from './dns-exchange.ts';
import { readReply, withRandomCase, writeQuery } from './dns-message.ts';
import type { Query, RecordOf, RecordType, Reply } from './dns-message.ts';

/** A DNS server, and the facts about it that are kept between look-ups. */
export interface Server extends ServerAddress {
  /** Look-ups in a row that this server left without any reply. */
  missed: number;
  /** Until this time (of `clock.monotonic`) other servers are asked first. */
  deadUntil: number;
  /** False once it refused a query with EDNS. */
  edns: boolean;
  /** Look-ups in a row in which it did not repeat the case of the question. */
  folded: number;
}

export interface Trouble {
  kind: 'trouble';
  why: 'timeout' | 'servfail' | 'refused' | 'malformed' | 'network';
  /** The trouble in words, for people. */
  text: string;
}
export type Found<T> = Extract<Reply<T>, { kind: 'records' | 'alias' | 'no_data' | 'no_domain' }> | Trouble;

const FIRST_REPEAT_MS = 800;
const MISSES_UNTIL_DEAD = 3;
const DEAD_MS = 30_000;
/** After so many a server is taken for one that changes case, and gets no random case any more. */
const FOLDED_UNTIL_KNOWN = 3;

interface Turn {
  server: Server;
  asked: Asked;
  /** When it was first asked. */
  since: number;
  /** A reply of any kind came: the server works. */
  heard: boolean;
  /** Its answer cannot be used; asking again would not help. */
  failed: boolean;
  /** A reply did not have the case of the question: the case is not checked any more in this look-up. */
  folded: boolean;
}

export interface Search<T> {
  result: Promise<Found<T>>;
  /** Ends the search with this answer. */
  abort(trouble: Trouble): void;
}

/**
 * Starts asking. `validating`: a SERVFAIL is the answer, whatever other servers say. `deadline` is on `clock.monotonic()`. The
 * promise never rejects and nothing stays open after it settles.
 */
export function search<T extends RecordType>(
  deps: { clock: Clock; servers: readonly Server[]; validating: boolean },
  question: { name: string; type: T },
  deadline: number,
): Search<RecordOf[T]> {
  const { clock } = deps;
  const order = preferred(deps.servers, clock.monotonic());
  const turns: Turn[] = [];
  let lastTrouble: Trouble = { kind: 'trouble', why: 'network', text: 'no DNS server is configured' };
  let repeatTimer: Timer | null = null;
  let rounds = 0;
  let settle: (found: Found<RecordOf[T]>) => void = () => undefined;
  const result = new Promise<Found<RecordOf[T]>>((resolve) => (settle = resolve));
  let done = false;

  const deadlineTimer = clock.after(Math.max(0, deadline - clock.monotonic()), () => {
    const silent = turns.every((turn) => !turn.heard);
    finish(silent ? { kind: 'trouble', why: 'timeout', text: 'no DNS server answered in time' } : lateTrouble());
  });

  function lateTrouble(): Trouble {
    return turns.some((turn) => !turn.failed)
      ? { kind: 'trouble', why: 'timeout', text: 'the DNS servers did not answer in time' }
      : lastTrouble;
  }

  function finish(found: Found<RecordOf[T]>): void {
    if (done) return;
    done = true;
    deadlineTimer.cancel();
    repeatTimer?.cancel();
    for (const turn of turns) {
      turn.asked.close();
      judge(turn, clock.monotonic());
    }
    settle(found);
  }

  /** Asks the next server that was not asked yet; when all were, repeats the query to those that are silent. */
  function next(): void {
    repeatTimer?.cancel();
    const server = order[turns.length];
    if (server !== undefined) ask(server);
    else {
      const silent = turns.filter((turn) => !turn.failed);
      if (silent.length === 0) {
        finish(lastTrouble);
        return;
      }
      rounds++;
      for (const turn of silent) turn.asked.repeat();
    }
    if (!done) repeatTimer = clock.after(FIRST_REPEAT_MS * 1.5 ** rounds, next);
  }

  function ask(server: Server, over: typeof askOverUdp = askOverUdp, previous?: Turn): void {
    previous?.asked.close();
    const turn: Turn = previous ?? {
      server,
      asked: nothing,
      since: clock.monotonic(),
      heard: false,
      failed: false,
      folded: false,
    };
    const query: Query<T> = { ...question, id: randomInt(65_536), edns: server.edns };
    // Over TCP a reply cannot be forged without seeing the connection.
    if (over === askOverUdp && !turn.folded && server.folded < FOLDED_UNTIL_KNOWN)
      query.written = withRandomCase(question.name);
    if (previous === undefined) turns.push(turn);
    turn.asked = over(server, writeQuery(query), {
      message(bytes) {
        if (done || turn.failed) return;
        const reply = readReply(bytes, query);
        if (query.written !== undefined && reply.kind !== 'foreign' && reply.kind !== 'folded') server.folded = 0;
        receive(turn, over, reply);
      },
      error(text) {
        if (!done && !turn.failed) fail(turn, { kind: 'trouble', why: 'network', text });
      },
    });
  }

  function receive(turn: Turn, over: typeof askOverUdp, reply: Reply<RecordOf[T]>): void {
    if (reply.kind === 'foreign') return;
    turn.heard = true;
    if (reply.kind === 'folded') {
      // It is asked again with another id and port and without a random case: a forger would have to guess both once more.
      turn.folded = true;
      turn.server.folded++;
      ask(turn.server, askOverUdp, turn);
    } else if (reply.kind === 'truncated') {
      if (over === askOverTcp)
        fail(turn, { kind: 'trouble', why: 'malformed', text: 'the answer is cut even over TCP' });
      else ask(turn.server, askOverTcp, turn);
    } else if (reply.kind !== 'failure') finish(reply);
    else if (reply.why === 'no_edns') {
      turn.server.edns = false;
      ask(turn.server, over, turn);
    } else if (reply.why === 'servfail' && deps.validating)
      finish({ kind: 'trouble', why: 'servfail', text: reply.text });
    else fail(turn, { kind: 'trouble', why: reply.why, text: reply.text });
  }

  function fail(turn: Turn, trouble: Trouble): void {
    turn.failed = true;
    turn.asked.close();
    lastTrouble = trouble;
    next();
  }

  next();
  return { result, abort: finish };
}

const nothing: Asked = { repeat: () => undefined, close: () => undefined };

/** Returns the servers that answer first, then those that do not, each group in the order of the settings. */
function preferred(servers: readonly Server[], now: number): Server[] {
  const live = servers.filter((server) => server.deadUntil <= now);
  return live.length === servers.length ? live : [...live, ...servers.filter((server) => server.deadUntil > now)];
}

/** Counts a server that stayed silent although it had time to answer, or that cannot be reached. */
function judge(turn: Turn, now: number): void {
  const { server } = turn;
  if (turn.heard) {
    server.missed = 0;
    server.deadUntil = 0;
  } else if (turn.failed || now - turn.since >= FIRST_REPEAT_MS) {
    server.missed++;
    if (server.missed >= MISSES_UNTIL_DEAD) server.deadUntil = now + DEAD_MS;
  }
}
