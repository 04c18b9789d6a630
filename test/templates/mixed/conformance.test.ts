import assert from 'node:assert/strict';
import { compile, render } from '../../../src/templates/mixed/index.ts';
import { NO_CORPORA } from '../../support/harness/corpora.ts';
import { byHandlebars, conformance, type Group } from './conformance.ts';
import { handlebarsDeviations } from './handlebars-cases.ts';

describe('templates/mixed beside other engines', () => {
  let seen: ReturnType<typeof conformance>;
  before(() => {
    seen = conformance();
  });

  const part = (groups: readonly Group[]): number =>
    groups.reduce((sum, { passed }) => sum + passed, 0) / groups.reduce((sum, { of }) => sum + of, 0);
  const failing = (groups: readonly Group[]): string => groups.flatMap((one) => one.failing).join('\n');

  it('Liquid: the suite of others, but for partials', function () {
    if (seen.liquid === null) return this.skip(NO_CORPORA);
    assert.ok(part(seen.liquid) >= 0.98, failing(seen.liquid));
  });

  it('Mustache: the suite of others, as far as Handlebars shares it', function () {
    if (seen.mustache === null) return this.skip(NO_CORPORA);
    assert.equal(failing(seen.mustache), '');
  });

  it('Handlebars: what its guide tells', () => {
    assert.equal(failing(seen.handlebars), '');
  });

  describe('differs from Handlebars on purpose', () => {
    for (const { source, data, prints, reason } of handlebarsDeviations)
      it(`${reason}: ${source}`, () => {
        const compiled = compile(source, 'html');
        assert.ok(compiled.ok);
        const more = { strict: false, locale: 'en', timezone: 'UTC', now: 0, monotonic: () => 0 };
        const result = render(compiled.template, { variables: data, ...more });
        assert.ok(result.ok);
        assert.equal(result.output, prints);
        assert.notEqual(byHandlebars(source, data), prints);
      });
  });
});
