/** Large files in a body: what is left in its bytes, and that all else is read as without it. */
import assert from 'node:assert/strict';
import { readJson, type JsonValue, type LongTexts } from '../../src/api/json.ts';

const LONG = 'QUJD'.repeat(20_000);
const SLASHED = 'QU/D'.repeat(20_000);

/** Returns the value with the texts in the places of their names. */
function filled(value: JsonValue, texts: LongTexts): JsonValue {
  if (typeof value === 'string') return texts.get(value)?.toString('latin1') ?? value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => filled(one, texts));
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, filled(one, texts)]));
}

const cases: readonly (readonly [why: string, json: string, files: number])[] = [
  ['a file', `{"attachments":[{"filename":"a","content":"${LONG}"}]}`, 1],
  ['two that are the same', `{"attachments":[{"content":"${LONG}"},{"content" :\n "${LONG}"}]}`, 1],
  ['one of another service', `{"Attachments":[{"Content":"${LONG}","Name":"a"}]}`, 1],
  ['files of entries', `{"recipients":[{"attachments":[{"content":"${LONG}"}]}],"attachments":[]}`, 1],
  ['slashes as PHP writes them', `{"attachments":[{"content":"${SLASHED.replaceAll('/', '\\/')}"}]}`, 1],
  ['slashes alone', `{"attachments":[{"content":"${'\\/'.repeat(40_000)}"}]}`, 1],
  ['another escape', `{"attachments":[{"content":"${LONG}\\n"}]}`, 0],
  ['an escaped quote at its end', `{"attachments":[{"content":"${LONG}\\"","a":"${LONG}"}]}`, 0],
  ['an escaped backslash at its end', `{"attachments":[{"content":"${LONG}\\\\"}]}`, 0],
  ['white space in it', `{"attachments":[{"content":"${LONG} "}]}`, 0],
  ['not ASCII', `{"attachments":[{"content":"${LONG}é"}]}`, 0],
  ['a short one', '{"attachments":[{"content":"QUJD"}]}', 0],
  ['a text that is no file', `{"metadata":{"content":"${LONG}"},"content":"${LONG}"}`, 1],
  ['variables that look like a mail', `{"variables":{"attachments":[{"content":"${LONG}"}]}}`, 1],
  ['deep in an entry', `{"recipients":[{"variables":[{"attachments":[{"content":"${LONG}"}]}]}]}`, 1],
  ['the name within a text', `{"text":"\\"content\\":\\"${LONG}\\"","html":"content\\":"}`, 0],
  ['a name that ends so', `{"a\\"content":"${LONG}","malcontent":"${LONG}"}`, 1],
  ['a long list of numbers in its place', `{"variables":{"content":[${'1,'.repeat(40_000)}1],"last":"a"}}`, 0],
  ['members of a prototype', `{"__proto__":{"content":"${LONG}"}}`, 1],
];

describe('api/json: files', () => {
  for (const [why, json, count] of cases)
    it(why, () => {
      const files: LongTexts = new Map();
      const read = readJson(Buffer.from(json), { files });
      assert.ok(read.kind === 'ok');
      assert.equal(files.size, count);
      assert.deepEqual(filled(read.value, files), JSON.parse(json));
      const isFile = /"attachments":\[\{"(?:filename|content)/i.test(json) && !json.includes('variables');
      assert.equal(JSON.stringify(read.value).includes('\\u0000'), isFile && count > 0, 'only files stay in the bytes');
    });

  it('finds the same faults as without it', () => {
    for (const [json, why] of [
      [`{"attachments":[{"content":"${LONG}"`, /not valid JSON/],
      [`{"attachments":[{"content":"${LONG}","content":"${LONG}"}]}`, /names a member twice/],
      [`{"attachments":[{"content":"${LONG}`, /not valid JSON/],
      [`{"attachments":[{content":"${LONG}"}]}`, /not valid JSON/],
    ] as const) {
      const read = readJson(Buffer.from(json), { files: new Map() });
      assert.ok(read.kind === 'bad');
      assert.match(read.why, why);
    }
  });
});
