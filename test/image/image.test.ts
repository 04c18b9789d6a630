/** Checks the image and the compose file without building them; image-test.sh builds them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parse } from 'yaml';
import { variableOf } from '../../src/config/load.ts';
import { listSettings } from '../../src/config/schema.ts';
import { assertRuns, whyNotBuilt } from '../support/harness/installed.ts';

const root = path.resolve(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const variables = new Set(listSettings().map(({ path: name }) => variableOf(name)));
const unknownIn = (text: string): string[] =>
  [...text.matchAll(/POSTHORN_[A-Z_]+/g)]
    .map(([name]) => name.replace(/_FILE$/, ''))
    .filter((name) => !variables.has(name));

describe('Dockerfile', () => {
  const dockerfile = read('Dockerfile');

  it('sets only settings that are there', () => {
    assert.deepEqual(unknownIn(dockerfile), []);
  });
  it('copies only what .dockerignore lets through', () => {
    const let_ = read('.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, names = '']) =>
      names.split(' '),
    );
    assert.deepEqual(
      copied.filter((name) => !let_.includes(name)),
      [],
    );
    assert.deepEqual(
      let_.filter((name) => !copied.includes(name)),
      [],
    );
  });
  it('ends as a user without rights, with a health check', () => {
    const [, final = ''] = dockerfile.split(/^FROM .*slim$/m);
    assert.match(final, /^USER posthorn$/m);
    assert.match(final, /^HEALTHCHECK .*health\.mjs/m);
    assert.match(final, /^EXPOSE 8025 25 587 465$/m);
    assert.doesNotMatch(final, /apt-get/);
  });
});

/** Makes /opt/posthorn of the image, as far as that is possible without npm: the packages are those of this checkout. */
function copyLikeTheImage(dockerfile: string, folder: string): void {
  const [build = ''] = dockerfile.split(/^FROM .*debian.*$/m);
  const ignored = read('.dockerignore')
    .split('\n')
    .filter((line) => /^[a-z]/.test(line));
  const copies = [...build.matchAll(/^COPY (?<names>.+) (?<place>\S+)$/gm)].flatMap(({ groups }) =>
    (groups?.['names'] ?? '').split(' ').map((name) => [name, groups?.['place'] ?? ''] as const),
  );
  for (const [name, place] of copies)
    cpSync(path.join(root, name), path.join(folder, place === './' ? name : place), {
      recursive: true,
      filter: (from) => !ignored.includes(path.relative(root, from)),
    });
  cpSync(path.join(root, 'dist'), path.join(folder, 'dist'), { recursive: true });
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  // Files that are deleted after the build; the lines about packages are npm's.
  const steps = build
    .slice(build.indexOf('npm run --silent build'))
    .split(' \\\n && ')
    .filter((step) => /^(?:rm -rf|find src) /.test(step));
  assert.equal(steps.length, 3);
  const cleaned = spawnSync('sh', ['-ec', steps.join('\n')], { cwd: folder, encoding: 'utf8' });
  assert.equal(cleaned.status, 0, cleaned.stderr);
}

describe('the program as the image has it', () => {
  it('runs', async function () {
    const missing = whyNotBuilt(root);
    if (missing !== null) this.skip(missing);
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-image-'));
    try {
      copyLikeTheImage(read('Dockerfile'), folder);
      await assertRuns(folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('docs/compose.yaml', () => {
  const compose = parse(read('docs/compose.yaml')) as {
    services: { posthorn: Record<string, unknown> };
    secrets: Record<string, unknown>;
  };
  const { services } = compose;

  it('gives a stop its time, data and backups a volume, and the container no rights', () => {
    const { stop_grace_period, volumes, read_only, cap_drop, build } = services.posthorn;
    assert.deepEqual(
      [stop_grace_period, volumes, read_only, cap_drop, build],
      ['75s', ['data:/var/lib/posthorn', 'backups:/var/backups/posthorn'], true, ['ALL'], '..'],
    );
  });
  it('hands the passphrase in as a secret, and the image makes the folder of the backups for its user', () => {
    const { environment, secrets } = services.posthorn as {
      environment: Record<string, string>;
      secrets: string[];
    };
    assert.equal(environment['POSTHORN_BACKUP__PASSPHRASE_FILE'], `/run/secrets/${String(secrets[0])}`);
    assert.deepEqual(Object.keys(compose.secrets), secrets);
    assert.match(read('Dockerfile'), /install -d -o posthorn -g posthorn -m 0700 \/var\/backups\/posthorn/);
    assert.match(read('.gitignore'), /^docs\/backup-passphrase$/m);
  });
  it('sets only settings that are there', () => {
    assert.deepEqual(unknownIn(read('docs/compose.yaml')), []);
    assert.deepEqual(unknownIn(read('docs/install.md')), []);
  });
});

describe('npm run sbom', () => {
  it('lists every package that runs, and none for development', () => {
    const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', 'sbom'], { cwd: root, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    const { bomFormat, components } = JSON.parse(stdout) as {
      bomFormat: string;
      components: { purl: string; hashes: unknown[] }[];
    };
    assert.equal(bomFormat, 'CycloneDX');
    const { dependencies, devDependencies } = JSON.parse(read('package.json')) as Record<
      string,
      Record<string, string>
    >;
    const listed = components.map(({ purl }) => decodeURIComponent(purl).replace(/^pkg:npm\//, ''));
    assert.deepEqual(
      Object.entries(dependencies ?? {})
        .map(([name, version]) => `${name}@${version}`)
        .filter((one) => !listed.includes(one)),
      [],
    );
    const development = Object.entries(devDependencies ?? {}).map(([name, version]) => `${name}@${version}`);
    assert.deepEqual(
      listed.filter((one) => development.includes(one)),
      [],
    );
    assert.ok(components.every(({ hashes }) => hashes.length === 1));
  });
});
