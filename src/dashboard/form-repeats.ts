/**
 * Sends of the same form: a double click without JavaScript, a second click on a slow network, a browser that sends a form again.
 * Each page has a number, which its forms carry (`_form`, views/_token.hbs). The first send with this number and these fields does
 * the work; each later one, also one that arrives meanwhile, is answered with the first one's redirect, or is led to the page that the
 * first one's answer names (`again`): a secret is not shown twice. Only that is kept, in the rows that the API's Idempotency-Key uses, for the same time: a refused form can be corrected and sent again.
 * The row is written after the work, so a crash between the two, or two nodes that get the same form at the same
 * time, can make one act twice.
 */
import { hash } from 'node:crypto';
import { InFlight, KEEP_MS, recordKey, type IdempotencyRow } from '../api/idempotency.ts';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { IdempotencyStore } from '../storage/idempotency-store.ts';
import type { Shown } from './page.ts';

type Move = Extract<Shown, { kind: 'move' }>;

export interface SentForm {
  memberId: string;
  url: string;
  fields: URLSearchParams;
}

export type FormRepeats = ReturnType<typeof createFormRepeats>;

export function createFormRepeats(deps: {
  clock: Clock;
  store: Pick<IdempotencyStore, 'find' | 'insert'>;
  /** Called if a row could not be written; the work itself is done. */
  failed: (error: unknown) => void;
}) {
  const { clock, store } = deps;
  const inFlight = new InFlight({ clock, store });

  /** Returns the row for later sends; null for an answer that is not kept. */
  function rowOf(key: string, memberId: string, shown: Shown): IdempotencyRow | null {
    const later = laterOf(shown);
    if (later === null) return null;
    return {
      key,
      body_hash: '',
      status: 303,
      headers_json: JSON.stringify({ Location: later.to }),
      body: later.say ?? '',
      created_at: clock.now(),
      expires_at: clock.now() + KEEP_MS,
      key_id: memberId,
    };
  }

  return {
    /** Does the work of a form once. `repeated` is called before a later send is answered with the first one's redirect. */
    async once(form: SentForm, work: () => Promise<Shown>, repeated: () => Promise<void>): Promise<Shown> {
      const key = keyOf(form);
      if (key === null) return await work();
      const turn = await inFlight.turn(key).catch((error: unknown) => {
        throw isStillRunning(error) ? stillRunning() : error;
      });
      if (turn.kind === 'replay') {
        await repeated();
        return moveOf(turn.row);
      }
      let row: IdempotencyRow | null = null;
      try {
        const shown = await work();
        row = rowOf(key, form.memberId, shown);
        if (row !== null) await store.insert(row).catch(deps.failed);
        return shown;
      } finally {
        turn.land(row);
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

/** Returns what a later send of the form is answered with; null if it may do the work itself. */
function laterOf(shown: Shown): Move | null {
  // A redirect with a new session is not repeated: its cookies are stored nowhere.
  if (shown.kind === 'move') return shown.cookies === undefined ? shown : null;
  if (shown.kind !== 'view' || shown.again === undefined) return null;
  return {
    kind: 'move',
    to: shown.again,
    say: 'Its answer was shown then: if you have not stored a secret, make a new one.',
  };
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
