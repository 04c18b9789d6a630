/** A release: the command in a clone of this checkout, what it refuses, and the workflow that calls it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parse } from 'yaml';
import { whyNotBuilt } from '../support/harness/installed.ts';

const project = path.resolve(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(path.join(project, 'package.json'), 'utf8')) as { version: string };
const MADE = 'The first line of what changed.';

describe('npm run release', () => {
  let folder = '';
  let clone = '';

  before(function () {
    const missing = whyNotBuilt(project);
    if (missing !== null) this.skip(missing);
    folder = mkdtempSync(path.join(os.tmpdir(), 'ph-release-'));
    clone = path.join(folder, 'clone');
    git(folder, 'clone', '--quiet', project, clone);
    // The files of this folder are tested, committed or not.
    for (const name of ['.ci', 'systemd', 'src/bin', 'package.json', 'package-lock.json'])
      cpSync(path.join(project, name), path.join(clone, name), { recursive: true });
    cpSync(path.join(project, 'dist'), path.join(clone, 'dist'), { recursive: true });
    symlinkSync(path.join(project, 'node_modules'), path.join(clone, 'node_modules'));
    writeFileSync(path.join(clone, '.git/info/exclude'), 'node_modules\n');
    writeFileSync(path.join(clone, 'CHANGELOG.md'), '# Changelog\n\n## [Unreleased]\n\n- later\n');
    commit();
  });
  after(() => {
    if (folder !== '') rmSync(folder, { recursive: true });
  });

  function git(cwd: string, ...args: string[]): void {
    const { status, stderr } = spawnSync('git', args, { cwd, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  }
  function commit(): void {
    git(clone, 'add', '--all');
    const who = ['-c', 'user.name=Test', '-c', 'user.email=test@posthorn.test', '-c', 'commit.gpgsign=false'];
    git(clone, ...who, 'commit', '--quiet', '--allow-empty', '--message', 'test');
  }
  const release = (...args: string[]) =>
    spawnSync('npm', ['run', '--silent', 'release', '--', '--quick', ...args], { cwd: clone, encoding: 'utf8' });

  it('refuses a version that the changelog does not have', () => {
    const { status, stderr } = release('--out', path.join(folder, 'none'));
    assert.equal(status, 1);
    assert.ok(stderr.includes(`CHANGELOG.md has no section "## [${version}]"`), stderr);
    assert.equal(existsSync(path.join(folder, 'none')), false);
  });

  describe('of a version with its section', () => {
    before(() => {
      writeFileSync(
        path.join(clone, 'CHANGELOG.md'),
        `# Changelog\n\n## [Unreleased]\n\n- later\n\n## [${version}] - 2026-01-31\n\n- ${MADE}\n\n## [0.0.1]\n\n- before\n`,
      );
      commit();
    });

    it('has each file with the version in its name, and checksums that are right and signed', () => {
      const out = path.join(folder, 'out');
      const key = path.join(folder, 'key');
      assert.equal(spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]).status, 0);
      const { status, stdout, stderr } = release('--out', out, '--tag', `v${version}`, '--sign', key);
      assert.equal(status, 0, stderr);
      assert.match(stdout, /^release: quick: no image$/m);
      const packed = `posthorn-${version}-${process.platform}-${process.arch}.tar.gz`;
      const files = [
        packed,
        `posthorn-${version}.cdx.json`,
        `posthorn-${version}.md`,
        `posthorn-client-${version}.tgz`,
      ].sort();
      assert.deepEqual(readdirSync(out).sort(), ['SHA256SUMS', 'SHA256SUMS.sig', ...files, `${packed}.sha256`].sort());
      const sums = readFileSync(path.join(out, 'SHA256SUMS'), 'utf8');
      assert.deepEqual([...sums.matchAll(/^[0-9a-f]{64} {2}(.+)$/gm)].map(([, name]) => name).sort(), files);
      assert.equal(spawnSync('sha256sum', ['--check', 'SHA256SUMS'], { cwd: out }).status, 0);
      writeFileSync(`${key}.allowed`, `releaser ${readFileSync(`${key}.pub`, 'utf8')}`);
      const check = '-Y verify -I releaser -n posthorn-release'.split(' ');
      const places = ['-f', `${key}.allowed`, '-s', path.join(out, 'SHA256SUMS.sig')];
      assert.equal(spawnSync('ssh-keygen', [...check, ...places], { input: sums }).status, 0);
      assert.notEqual(spawnSync('ssh-keygen', [...check, ...places], { input: `${sums}x` }).status, 0);
      assert.equal(readFileSync(path.join(out, `posthorn-${version}.md`), 'utf8'), `- ${MADE}\n`);
      const bom = JSON.parse(readFileSync(path.join(out, `posthorn-${version}.cdx.json`), 'utf8')) as {
        metadata: { component: { version: string } };
      };
      assert.equal(bom.metadata.component.version, version);
    });

    for (const [name, args, said] of [
      ['without a folder', [], /name a folder/],
      ['a folder that is not empty', ['--out', project], /is not empty/],
      ['a tag of another version', ['--out', '/tmp/none', '--tag', 'v0.0.9'], /the tag is v0\.0\.9, but package\.json/],
      ['an unknown option', ['--fast'], /unknown option --fast/],
    ] as const)
      it(`refuses ${name}`, () => {
        const { status, stderr } = release(...args);
        assert.equal(status, 1);
        assert.match(stderr, said);
      });

    it('refuses what is not committed, and names it', () => {
      appendFileSync(path.join(clone, 'README.md'), 'x\n');
      const { status, stderr } = release('--out', path.join(folder, 'dirty'));
      assert.equal(status, 1);
      assert.match(stderr, /commit these first, or remove them:\n M README\.md/);
    });
  });
});

interface Workflow {
  on: { push?: { tags?: string[]; branches?: string[] } };
  permissions: Record<string, string>;
  jobs: Record<string, { permissions?: Record<string, string>; steps: { uses?: string; run?: string }[] }>;
}

describe('the workflows', () => {
  const folder = path.join(project, '.github/workflows');
  const workflows = readdirSync(folder).map(
    (name) => [name, parse(readFileSync(path.join(folder, name), 'utf8')) as Workflow] as const,
  );
  for (const [name, { permissions, jobs }] of workflows)
    it(`${name}: read only by default, actions by their commit, nothing of an event in a shell command`, () => {
      assert.deepEqual(permissions, { contents: 'read' });
      for (const { uses, run } of Object.values(jobs).flatMap(({ steps }) => steps)) {
        if (uses !== undefined) assert.match(uses, /@[0-9a-f]{40}$/);
        assert.doesNotMatch(run ?? '', /\$\{\{/);
      }
    });

  it('release.yml makes a draft from a tag with the command, and may do nothing else', () => {
    const release = new Map(workflows).get('release.yml');
    assert.deepEqual(release?.on, { push: { tags: ['v*'] } });
    const { permissions, steps } = release.jobs['release'] ?? { steps: [] };
    assert.deepEqual(permissions, { contents: 'write' });
    const commands = steps.flatMap(({ run }) => run ?? []);
    assert.equal(commands[0], 'npm run release -- --out "$RUNNER_TEMP/release" --tag "$GITHUB_REF_NAME"');
    assert.match(commands[1] ?? '', /^gh release create .*--verify-tag --draft /);
    assert.equal(commands.length, 2);
  });
});
