/** The style sheet and the script: read once at start, named by their content, so that browsers may keep them for a year. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';

export interface Asset {
  bytes: Buffer;
  type: string;
}

export interface Assets {
  /** Address of an asset by its name: `/assets/style.1a2b3c4d.css`. */
  url(name: string): string;
  at(path: string): Asset | null;
}

const FOLDER = path.join(import.meta.dirname, 'public');
const files = [
  ['style.css', 'text/css; charset=utf-8'],
  ['app.js', 'text/javascript; charset=utf-8'],
  ['icon.svg', 'image/svg+xml'],
] as const;

export function loadAssets(): Assets {
  const urls = new Map<string, string>();
  const assets = new Map<string, Asset>();
  for (const [name, type] of files) {
    const bytes = readFileSync(path.join(FOLDER, name));
    const print = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
    const { name: stem, ext } = path.parse(name);
    const url = `/assets/${stem}.${print}${ext}`;
    urls.set(name, url);
    assets.set(url, { bytes, type });
  }
  return {
    url: (name) => urls.get(name) ?? '',
    at: (where) => assets.get(where) ?? null,
  };
}
