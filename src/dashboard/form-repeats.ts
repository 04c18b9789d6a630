/**
 * Sends of the same form: a double click without JavaScript, a second click on a slow network, a browser that sends a form again.
 * Each page has a number, which its forms carry (`_form`, views/_token.hbs). The first send with this number and these fields does
 * the work; each later one, also one that arrives meanwhile, is answered with the first one's redirect. Only what ended in a
 * redirect is kept, in the rows that the API's Idempotency-Key uses, for the same time: a refused form can be corrected and sent again.
 * The row is written after the work, so a crash between the two can make one act twice. Where other nodes are, a row that says that the form
 * is being worked on is written before it: the two sends of a double click may reach two nodes.
 */
import { hash } from 'node:crypto';
import { InFlight, KEEP_MS, recordKey, WAIT_MS, type IdempotencyRow } from '../api/idempotency.ts';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { isKeyTaken, type IdempotencyStore } from '../storage/idempotency-store.ts';
import type { Shown } from './page.ts';

type Move = Extract<Shown, { kind: 'move' }>;

/** A form that a member sent. */
export interface SentForm {
  memberId: string;
  url: string;
  fields: URLSearchParams;
}

/** The status of a row whose form a node is working on, and the time after which it is taken to have died. */
const RUNNING = 102;
const RUNNING_MS = 60_000;
const LOOK_MS = 250;

export type FormRepeats = ReturnType<typeof createFormRepeats>;

export function createFormRepeats(deps: {
  clock: Clock;
  store: Pick<IdempotencyStore, 'find' | 'insert' | 'replace' | 'release'>;
  /** Returns whether other nodes serve the dashboard too. */
  hasOthers: () => boolean;
  /** Called where a row could not be written; the work itself is done. */
  failed: (error: unknown) => void;
}) {
  const { clock, store } = deps;
  const inFlight = new InFlight({ clock, store });

  /** Returns the row of a redirect, which must be answered with; null for every other answer, which is not kept. */
  function rowOf(key: string, memberId: string, shown: Shown): IdempotencyRow | null {
    // A redirect with a new session is not repeated: its cookies are stored nowhere.
    if (shown.kind !== 'move' || shown.cookies !== undefined) return null;
    return {
      key,
      body_hash: '',
      status: 303,
      headers_json: JSON.stringify({ Location: shown.to }),
      body: shown.say ?? '',
      created_at: clock.now(),
      expires_at: clock.now() + KEEP_MS,
      key_id: memberId,
    };
  }

  /** Returns the row of a form that another node has done; null when it is for this node to do, and the others know that. */
  async function reserve(key: string, memberId: string): Promise<IdempotencyRow | null> {
    const deadline = clock.monotonic() + WAIT_MS;
    for (;;) {
      const now = clock.now();
      const running = { body_hash: '', status: RUNNING, headers_json: '{}', body: '', key_id: memberId };
      try {
        await store.insert({ key, ...running, created_at: now, expires_at: now + RUNNING_MS });
        return null;
      } catch (error) {
        if (!isKeyTaken(error)) throw error;
      }
      const row = await store.find(key);
      if (row !== null && row.status !== RUNNING) return row;
      if (clock.monotonic() >= deadline) throw stillRunning();
      if (row !== null) await clock.sleep(LOOK_MS);
    }
  }

  /** Does the work; returns its answer and the row that is kept of it. */
  async function perform(
    key: string,
    memberId: string,
    isReserved: boolean,
    work: () => Promise<Shown>,
  ): Promise<{ shown: Shown; row: IdempotencyRow | null }> {
    let row: IdempotencyRow | null = null;
    try {
      const shown = await work();
      row = rowOf(key, memberId, shown);
      if (row !== null) await (isReserved ? store.replace(row) : store.insert(row)).catch(deps.failed);
      return { shown, row };
    } finally {
      if (isReserved && row === null) await store.release(key).catch(deps.failed);
    }
  }

  return {
    /** Does the work of a form once. `repeated` is called before a later send is answered with the first one's redirect. */
    async once(form: SentForm, work: () => Promise<Shown>, repeated: (first: Move) => void): Promise<Shown> {
      const key = keyOf(form);
      if (key === null) return await work();
      const repeat = (row: IdempotencyRow): Move => {
        const first = moveOf(row);
        repeated(first);
        return first;
      };
      const turn = await inFlight.turn(key).catch((error: unknown) => {
        throw isStillRunning(error) ? stillRunning() : error;
      });
      if (turn.kind === 'replay' && turn.row.status !== RUNNING) return repeat(turn.row);
      let row: IdempotencyRow | null = null;
      try {
        const isReserved = deps.hasOthers() || turn.kind === 'replay';
        row = isReserved ? await reserve(key, form.memberId) : null;
        if (row !== null) return repeat(row);
        const done = await perform(key, form.memberId, isReserved, work);
        row = done.row;
        return done.shown;
      } finally {
        if (turn.kind === 'run') turn.land(row);
      }
    },
  };
}

/** Returns the key of the row; null for a form without a number. All fields count, so that a form that was changed is a new one. */
function keyOf({ memberId, url, fields }: SentForm): string | null {
  if ((fields.get('_form') ?? '') === '') return null;
  const counted = new URLSearchParams(fields);
  // Each page has another token, and the script renews it before a form goes out.
  counted.delete('_token');
  return recordKey(memberId, 'dashboard', 'POST', url, hash('sha256', counted.toString(), 'hex'));
}

function moveOf({ headers_json: headers, body }: IdempotencyRow): Move {
  const { Location: to } = JSON.parse(headers) as { Location: string };
  return { kind: 'move', to, say: `The form was sent twice and done once. ${body}`.trim() };
}

const isStillRunning = (error: unknown): boolean =>
  error instanceof Problem && error.code === 'idempotency_in_progress';

const stillRunning = (): Problem =>
  new Problem(
    'idempotency_in_progress',
    'This form was sent twice, and the first one is still being worked on. Look at the list in a moment.',
  );
