/** Style sheets and scripts, our own, htmx and Swagger UI: read at start and named by content, so that browsers may keep them for a year. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

export type Assets = ReturnType<typeof loadAssets>;

const CSS = 'text/css; charset=utf-8';
const JS = 'text/javascript; charset=utf-8';
const require = createRequire(import.meta.url);
const own = (name: string): string => path.join(import.meta.dirname, 'public', name);

const files: readonly (readonly [name: string, file: () => string, type: string])[] = [
  // The style sheet names the font, so the font comes first.
  ['inter.woff2', () => own('inter.woff2'), 'font/woff2'],
  ['style.css', () => own('style.css'), CSS],
  ['app.js', () => own('app.js'), JS],
  ['forms.js', () => own('forms.js'), JS],
  ['palette.js', () => own('palette.js'), JS],
  ['editor.js', () => own('editor.js'), JS],
  ['icon.svg', () => own('icon.svg'), 'image/svg+xml'],
  ['icons.svg', () => own('icons.svg'), 'image/svg+xml'],
  ['htmx.js', () => require.resolve('htmx.org/dist/htmx.min.js'), JS],
  ['reference.js', () => own('reference.js'), JS],
  ['swagger.js', () => require.resolve('swagger-ui-dist/swagger-ui-bundle.js'), JS],
  ['swagger-ui.css', () => require.resolve('swagger-ui-dist/swagger-ui.css'), CSS],
];

/** Puts the addresses of assets into a style sheet, which names them as `url(inter.woff2)`. */
const withUrls = (css: string, urls: ReadonlyMap<string, string>): string =>
  css.replaceAll(/url\(([\w.]+)\)/g, (_, name: string) => `url(${urls.get(name) ?? name})`);

/** Loads all of them. Throws if one cannot be read. */
export function loadAssets() {
  const urls = new Map<string, string>();
  const assets = new Map<string, { body: string | Buffer; type: string }>();
  for (const [name, file, type] of files) {
    const read = readFileSync(file());
    const body = type === CSS ? withUrls(read.toString(), urls) : read;
    const print = createHash('sha256').update(body).digest('hex').slice(0, 12);
    const { name: stem, ext } = path.parse(name);
    const url = `/assets/${stem}.${print}${ext}`;
    urls.set(name, url);
    assets.set(url, { body, type });
  }
  return {
    /** The addresses of assets by the names of their files up to the dot: `/assets/style.1a2b3c4d.css` for `style`. */
    urls: Object.fromEntries([...urls].map(([name, url]) => [path.parse(name).name, url])),
    at: (path: string) => assets.get(path) ?? null,
  };
}
