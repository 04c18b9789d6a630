/** Bodies come back as they were sent, whatever they have in common; and what they have in common is stored once. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { bodyOf, createBodyStore } from '../../../src/messages/store/stored-content.ts';
import type { ContentRow } from '../../../src/storage/tables.ts';
import { NOW } from '../../support/harness/mail-rows.ts';

type Body = Pick<ContentRow, 'html' | 'text'>;

const row = (n: number, name: string): string =>
  `<tr><td style="padding:8px">Row ${String(n)} of ${name}, who is well</td></tr>\n`;
const page = (name: string): string =>
  Array.from({ length: 500 }, (_, n) => row(n, n % 100 === 0 ? name : 'all')).join('');

/** Stores all of them; gives the characters that are stored, and the bodies as they are read. */
function stored(bodies: readonly Body[]): { characters: number; bases: number; read: Body[] } {
  const store = createBodyStore(bodies, NOW);
  const rows = bodies.map((body) => store.store(body));
  const bases = store.bases();
  const all = [...rows, ...bases];
  return {
    characters: all.reduce((sum, { html, text }) => sum + (html?.length ?? 0) + (text?.length ?? 0), 0),
    bases: bases.length,
    read: rows.map((one) => {
      const base = bases.find(({ id }) => id === one.base_id);
      return bodyOf({ ...one, base_html: base?.html ?? null, base_text: base?.text ?? null });
    }),
  };
}

describe('messages/stored-content', () => {
  it('stores what the bodies of one template have in common once', () => {
    const bodies = Array.from({ length: 100 }, (_, n) => {
      const name = `Ann "the ${String(n)}th" <ä>`;
      return { html: page(name), text: `Dear ${name},\n${'the same for all of you\n'.repeat(200)}` };
    });
    const { characters, bases, read } = stored(bodies);
    assert.deepEqual(read, bodies);
    assert.equal(bases, 1);
    assert.ok(characters < page('Ann').length * 1.2 + 5000 + 100 * 1000, String(characters));
  });

  it('keeps nothing of a single recipient in the base', () => {
    const bodies = Array.from({ length: 10 }, (_, n) => ({ html: page(`person-${String(n)}`), text: null }));
    const store = createBodyStore(bodies, NOW);
    for (const body of bodies) store.store(body);
    assert.equal(store.bases().length, 1);
    assert.doesNotMatch(JSON.stringify(store.bases()), /person-/);
  });

  it('stores bodies whole that are few, small, or unlike', () => {
    const alike = Array.from({ length: 3 }, (_, n) => ({ html: page(String(n)), text: null }));
    const small = Array.from({ length: 10 }, (_, n) => ({ html: `<p>${String(n)}</p>`, text: 'the same' }));
    const unlike = Array.from({ length: 10 }, (_, n) => ({ html: `${String(n)} `.repeat(2000), text: null }));
    for (const bodies of [alike, small, unlike]) {
      const { bases, read } = stored(bodies);
      assert.equal(bases, 0);
      assert.deepEqual(read, bodies);
    }
  });

  it('gives back every body, whatever it is', () => {
    const piece = fc.constantFrom(
      '<p style="color:#333333;padding:8px 16px">',
      'x'.repeat(400),
      '😀'.repeat(150),
      `a${'😀'.repeat(150)}`,
      '>',
      '\n',
      'é'.repeat(1000),
    );
    const part = fc
      .array(fc.oneof(piece, fc.string({ unit: 'grapheme' })), { maxLength: 30 })
      .map((parts) => parts.join(''));
    const body = fc.record({ html: fc.option(part), text: fc.option(part) });
    let based = 0;
    fc.assert(
      fc.property(fc.array(body, { maxLength: 12 }), part, (bodies, shared) => {
        const all = bodies.map(({ html, text }) => ({
          html: html === null ? null : `${shared}${html}${shared}`,
          text,
        }));
        const { bases, read } = stored(all);
        based += bases;
        assert.deepEqual(read, all);
      }),
      { numRuns: 300 },
    );
    assert.ok(based > 20, String(based));
  });
});
