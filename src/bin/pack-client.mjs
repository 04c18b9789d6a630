// Makes the package `posthorn-client` out of what the compiler has left in dist/client, and prints its path. The same sources
// give the same bytes: npm writes fixed times into a tarball.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
// Tests build in another folder.
const out = path.resolve(process.argv[2] ?? path.join(root, 'dist/client'));
const home = path.join(out, 'package');

const { version, license } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const side = (kind) => ({ types: `./${kind}/index.d.ts`, default: `./${kind}/index.js` });
const manifest = {
  name: 'posthorn-client',
  version,
  description: 'Client for a Posthorn server: send mail, follow it, verify webhooks. Typed, without dependencies',
  license,
  type: 'module',
  sideEffects: false,
  engines: { node: '>=20' },
  exports: { '.': { import: side('esm'), require: side('cjs') }, './package.json': './package.json' },
  // For readers that do not know `exports`, such as TypeScript with the resolution of Node.js 10.
  main: './cjs/index.js',
  types: './cjs/index.d.ts',
};

rmSync(home, { recursive: true, force: true });
mkdirSync(home, { recursive: true });
for (const kind of ['esm', 'cjs']) cpSync(path.join(out, kind), path.join(home, kind), { recursive: true });
writeFileSync(path.join(home, 'cjs/package.json'), '{"type":"commonjs","sideEffects":false}\n');
writeFileSync(path.join(home, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
cpSync(path.join(root, 'src/client/README.md'), path.join(home, 'README.md'));
cpSync(path.join(root, 'LICENSE'), path.join(home, 'LICENSE'));

const npm = spawnSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', out, home], {
  stdio: ['ignore', 'ignore', 'inherit'],
});
if (npm.status !== 0) throw new Error(`npm pack ended with ${String(npm.status ?? npm.error)}`);
for (const part of ['package', 'esm', 'cjs']) rmSync(path.join(out, part), { recursive: true, force: true });
process.stdout.write(`${path.join(out, `posthorn-client-${version}.tgz`)}\n`);
