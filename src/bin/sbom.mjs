// Writes the list of the packages that run (SBOM, CycloneDX 1.5) to standard output, from package-lock.json: name, version, licence
// and checksum of each. `npm sbom --omit dev` leaves out packages that a package for development needs as well. The same lockfile
// gives the same bytes.
import { readFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
const read = (name) => JSON.parse(readFileSync(path.join(root, name), 'utf8'));
const { name, version, license, description } = read('package.json');
const { packages } = read('package-lock.json');

/** Returns the package URL (purl); the `@` of a scope is encoded there. */
const purlOf = (packageName, packageVersion) => `pkg:npm/${packageName.replace(/^@/, '%40')}@${packageVersion}`;

/** Reads `sha512-<base64>` of the lockfile. */
function hashesOf(integrity = '') {
  return integrity
    .split(' ')
    .filter((one) => one.startsWith('sha512-'))
    .map((one) => ({ alg: 'SHA-512', content: Buffer.from(one.slice('sha512-'.length), 'base64').toString('hex') }));
}

/** A licence is an SPDX expression such as `(MIT OR Apache-2.0)`, or the id of one. */
const licensesOf = (written) =>
  written === undefined ? [] : /[\s()]/.test(written) ? [{ expression: written }] : [{ license: { id: written } }];

const components = Object.entries(packages)
  .filter(([place, { dev, devOptional }]) => place !== '' && !dev && !devOptional)
  .map(([place, entry]) => {
    const packageName = entry.name ?? place.split('node_modules/').at(-1);
    const purl = purlOf(packageName, entry.version);
    return {
      'bom-ref': `${place}@${entry.version}`,
      type: 'library',
      name: packageName,
      version: entry.version,
      purl,
      hashes: hashesOf(entry.integrity),
      licenses: licensesOf(entry.license),
    };
  });

const document = {
  $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  version: 1,
  metadata: {
    component: { 'bom-ref': name, type: 'application', name, version, description, licenses: licensesOf(license) },
  },
  components,
};
console.log(JSON.stringify(document, null, 2));
