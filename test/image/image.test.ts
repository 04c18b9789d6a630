/** What can be said of the image and the compose file without building them; image-test.sh does that. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { variableOf } from '../../src/config/environment.ts';
import { listSettings } from '../../src/config/schema.ts';

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

describe('docs/compose.yaml', () => {
  const { services } = parse(read('docs/compose.yaml')) as { services: { posthorn: Record<string, unknown> } };

  it('gives a stop its time, the data a volume, and the container no rights', () => {
    const { stop_grace_period, volumes, read_only, cap_drop, build } = services.posthorn;
    assert.deepEqual(
      [stop_grace_period, volumes, read_only, cap_drop, build],
      ['75s', ['data:/var/lib/posthorn'], true, ['ALL'], '..'],
    );
  });
  it('sets only settings that are there', () => {
    assert.deepEqual(unknownIn(read('docs/compose.yaml')), []);
    assert.deepEqual(unknownIn(read('docs/install.md')), []);
  });
});
