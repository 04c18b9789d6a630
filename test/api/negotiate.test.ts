import assert from 'node:assert/strict';
import { forbids, preferredType } from '../../src/api/negotiate.ts';

describe('forbids', () => {
  const json = ['application/json'];
  const rows: [accept: string | undefined, forbidden: boolean, why: string, types?: string[]][] = [
    [undefined, false, 'nothing said'],
    ['text/html', false, 'JSON not named'],
    ['*/*;q=0', true, 'everything'],
    ['text/html;q=0', false, 'something else'],
    ['application/*;q=0', true, 'the group'],
    ['application/*;q=0, application/json', false, 'the more specific range wins'],
    ['application/json; Q=0.000', true, 'zero in another spelling'],
    ['*/*;q=0, text/event-stream', true, 'another type is welcome, but there is none'],
    ['*/*;q=0, text/event-stream', false, 'another type is welcome', [...json, 'text/event-stream']],
    ['application/json;q=0.01', false, 'unwelcome is not forbidden'],
    [`${';'.repeat(50_000)}q=0`, false, 'nonsense'],
  ];
  for (const [accept, forbidden, why, types = json] of rows) {
    it(`${why}: ${forbidden ? 'yes' : 'no'}`, () => {
      assert.equal(forbids(accept, types), forbidden);
    });
  }
});

describe('preferredType', () => {
  const stream = 'text/event-stream';
  const lines = 'application/x-ndjson';
  const rows: [accept: string | undefined, type: string, why: string][] = [
    [undefined, 'application/json', 'nothing said'],
    ['*/*', 'application/json', 'a wildcard names nothing'],
    [stream, stream, 'what an EventSource sends'],
    ['Text/Event-Stream', stream, 'case makes no difference'],
    [`${lines}; charset=utf-8;q=0.9, application/json;q=0.5`, lines, 'a parameter makes no difference'],
    [`application/json, ${stream}`, 'application/json', 'of equals, the first in the header'],
    [`${stream};q=0`, 'application/json', 'refused is not asked for'],
    [`application/json, ${lines};q=0.5`, 'application/json', 'JSON is wanted more'],
    [`${lines};q=0.5, */*;q=0.1`, lines, 'anything else is wanted less'],
    [`${stream};q=0.2, ${lines}`, lines, 'the heavier of two'],
    [`${lines}, ${stream}`, lines, 'of equals, the first in the header'],
    [`*/*, ${stream}`, stream, 'a type that is named goes before a wildcard'],
    [`x${lines}x`, 'application/json', 'another type that contains the name'],
  ];
  for (const [accept, type, why] of rows) {
    it(`${why}: ${type}`, () => {
      assert.equal(preferredType(accept, ['application/json', stream, lines]), type);
    });
  }
});
