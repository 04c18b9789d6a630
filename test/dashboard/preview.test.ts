import assert from 'node:assert/strict';
import { inTheme } from '../../src/dashboard/pages/templates.ts';

describe('dashboard/preview: inTheme', () => {
  const rows: readonly (readonly [html: string, light: string, dark: string])[] = [
    [
      '<style>@media (prefers-color-scheme: dark) { p { color: white } }</style>',
      '<style>@media (max-width:0) { p { color: white } }</style>',
      '<style>@media (min-width:0) { p { color: white } }</style>',
    ],
    [
      '<link media="screen and ( PREFERS-COLOR-SCHEME :light )">',
      '<link media="screen and (min-width:0)">',
      '<link media="screen and (max-width:0)">',
    ],
    [
      '<meta name="color-scheme" content="light dark">',
      '<meta name="color-scheme" content="light">',
      '<meta name="color-scheme" content="dark">',
    ],
    [':root { color-scheme: dark light }', ':root { color-scheme: light }', ':root { color-scheme: dark }'],
    [
      '<meta name="color-scheme" content="light only">',
      '<meta name="color-scheme" content="light only">',
      '<meta name="color-scheme" content="light only">',
    ],
    ['<p>light dark (dark)</p>', '<p>light dark (dark)</p>', '<p>light dark (dark)</p>'],
  ];
  for (const [html, light, dark] of rows)
    it(`sets ${html}`, () => {
      assert.equal(inTheme(html, 'light'), light);
      assert.equal(inTheme(html, 'dark'), dark);
    });
});
