/** The style sheet keeps to the tokens that docs/design.md describes, and every pair of colours named there can be read. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const css = readFileSync('src/dashboard/public/style.css', 'utf8').replaceAll(/\/\*[^]*?\*\//g, '');
const page = readFileSync('docs/design.md', 'utf8');

/** Each declaration outside of `:root`, as `property: value`. */
const root = /:root \{([^}]*)\}/.exec(css)?.[1] ?? '';
const rest = [...css.replace(root, '').matchAll(/([\w-]+):\s*([^;{}]+);/g)].map(([, name = '', value = '']) => ({
  name,
  value,
}));
const tokens = new Map([...root.matchAll(/(--[\w-]+):\s*([^;]+);/g)].map(([, name = '', value = '']) => [name, value]));

const COLOUR = /#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch|lab)a?\(|\b(?:white|black|red|gr[ae]y|green|blue|yellow|orange)\b/i;
const SPACED = /^(?:padding|margin|gap|row-gap|column-gap)(?:-|$)/;

/** Luminance by WCAG 2.2 of `#fff` or `#ffffff`. */
function luminance(hex: string): number {
  const digits = hex.length === 4 ? hex.slice(1).replaceAll(/./g, '$&$&') : hex.slice(1);
  const [r = 0, g = 0, b = 0] = [0, 2, 4].map((at) => {
    const part = Number.parseInt(digits.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** The colours of a token: light, dark. */
function coloursOf(token: string): [string, string] {
  const value = tokens.get(token) ?? '';
  const [light = '', dark = light] = value.match(/#[0-9a-f]+/gi) ?? [];
  assert.match(light, /^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/i, `${token} is no colour: ${value}`);
  return [light, dark];
}

const namesIn = (cell = ''): string[] => [...cell.matchAll(/`(--[\w-]+)`/g)].map(([, name = '']) => name);

describe('dashboard: design', () => {
  it('names no colour, font size or space outside of the tokens', () => {
    assert.deepEqual(
      rest.filter(({ value }) => COLOUR.test(value.replaceAll(/var\([^()]*\)/g, ''))),
      [],
    );
    assert.deepEqual(
      rest.filter(
        ({ name, value }) => /^font(?:-size)?$/.test(name) && !/^(?:var\(--(?:font|mono)|inherit)/.test(value),
      ),
      [],
    );
    assert.deepEqual(
      rest.filter(({ name, value }) => SPACED.test(name) && /\d(?:px|r?em)/.test(value.replaceAll(/\b1px\b/g, ''))),
      [],
    );
  });

  it('names in views and scripts no style and no token of its own', () => {
    const used = new Set([...css.matchAll(/var\((--[\w-]+)/g)].map(([, name = '']) => name));
    const local = new Set(rest.filter(({ name }) => name.startsWith('--')).map(({ name }) => name));
    assert.deepEqual(
      [...used].filter((name) => !tokens.has(name) && !local.has(name)),
      [],
    );
    assert.deepEqual(
      [...tokens.keys()].filter((name) => !used.has(name)),
      [],
      'a token that no rule uses',
    );
  });

  it('has its tokens in docs/design.md, with their sizes, and no other there', () => {
    const named = new Set(namesIn(page));
    assert.deepEqual(
      [...tokens.keys()].filter((name) => !named.has(name) && name !== '--sans'),
      [],
    );
    assert.deepEqual(
      [...named].filter((name) => !tokens.has(name)),
      [],
    );
    for (const [, names = '', sizes = ''] of page.matchAll(/^\| (`--(?:font|s\d|control|round)[^|]*) \| ([^|]*px)/gm))
      assert.deepEqual(
        namesIn(names).map((name) => tokens.get(name)),
        sizes.trim().split(', '),
        names,
      );
  });

  it('can be read: the contrast of each pair in docs/design.md, light and dark', () => {
    const pairs = [...page.matchAll(/^\| ([^|]*`--[^|]*) \| ([^|]*`--[^|]*) \| ([\d.]+) *\|/gm)];
    assert.ok(pairs.length > 8, 'the table of pairs was found');
    const low: string[] = [];
    for (const [, fronts, grounds, least] of pairs)
      for (const front of namesIn(fronts))
        for (const ground of namesIn(grounds))
          for (const theme of [0, 1] as const) {
            const found = contrast(coloursOf(front)[theme], coloursOf(ground)[theme]);
            if (found < Number(least))
              low.push(`${front} on ${ground} ${['light', 'dark'][theme] ?? ''}: ${found.toFixed(2)}`);
          }
    assert.deepEqual(low, []);
  });
});
