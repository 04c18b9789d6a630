import assert from 'node:assert/strict';
import { EncodedContents } from '../../../src/mta/prepare/drafts.ts';
import type { Composed } from '../../../src/mta/prepare/compose.ts';

const composed = (bytes: number): Composed => ({
  content: { headers: '', body: Buffer.alloc(bytes) },
  bodyHash: '',
});

/** Finds a content, or encodes it and waits until it is added. */
async function get(
  contents: EncodedContents,
  id: string,
  encode: (id: string) => Promise<Composed>,
): Promise<Composed> {
  const found = contents.find(id);
  if (found !== null) return found;
  return (
    await contents.add(
      id,
      encode(id).then((one) => ({ composed: one })),
    )
  ).composed;
}

describe('encoded contents', () => {
  it('encodes a content once for callers that ask while it is being encoded, and after that', async () => {
    const asked: string[] = [];
    const contents = new EncodedContents(10_000);
    const encode = (id: string): Promise<Composed> => {
      asked.push(id);
      return Promise.resolve(composed(100));
    };
    const both = Promise.all([get(contents, 'a', encode), get(contents, 'a', encode)]);
    assert.equal(contents.made('a'), undefined, 'it is being encoded');
    const [one, other] = await both;
    assert.equal(one, other);
    assert.equal(contents.made('a'), one);
    assert.equal(await get(contents, 'a', encode), one);
    assert.deepEqual(asked, ['a']);
  });

  it('keeps a content when it is asked for a second time, since most contents have one recipient', async () => {
    const asked: string[] = [];
    const contents = new EncodedContents(10_000);
    const encode = (id: string): Promise<Composed> => {
      asked.push(id);
      return Promise.resolve(composed(100));
    };
    for (let n = 0; n < 20; n++) await get(contents, String(n), encode);
    assert.equal(contents.bytes, 0);
    await get(contents, '7', encode);
    assert.equal(contents.made('7')?.content.body.length, 100);
    asked.length = 0;
    await get(contents, '7', encode);
    await get(contents, '7', encode);
    assert.deepEqual(asked, [], 'the second time it was kept');
  });

  it('keeps a content that failed and is asked for again only when it is asked for a second time', async () => {
    const contents = new EncodedContents(10_000);
    await assert.rejects(get(contents, 'a', () => Promise.reject(new Error('the disk'))));
    await get(contents, 'a', () => Promise.resolve(composed(10)));
    assert.equal(contents.bytes, 0);
  });

  it('counts the bytes of each body, so that its memory is bounded', async () => {
    const asked: string[] = [];
    const contents = new EncodedContents(10_000);
    const encode = (id: string): Promise<Composed> => {
      asked.push(id);
      return Promise.resolve(composed(3000));
    };
    for (let n = 0; n < 100; n++) {
      await Promise.all([get(contents, String(n), encode), get(contents, String(n), encode)]);
      assert.ok(contents.bytes <= 10_000, `${String(contents.bytes)} bytes`);
    }
    assert.ok(contents.bytes >= 6000);
    asked.length = 0;
    await get(contents, '99', encode);
    assert.deepEqual(asked, [], 'the last ones are kept');
    await get(contents, '0', encode);
    assert.deepEqual(asked, ['0'], 'the first ones are not');
  });

  it('does not keep a content that alone is larger than the limit', async () => {
    const contents = new EncodedContents(1000);
    for (let n = 0; n < 3; n++)
      assert.equal((await get(contents, 'a', () => Promise.resolve(composed(5000)))).content.body.length, 5000);
    assert.equal(contents.bytes, 0);
  });

  it('tries again after a failure', async () => {
    let isBroken = true;
    const contents = new EncodedContents(1000);
    const encode = (): Promise<Composed> =>
      isBroken ? Promise.reject(new Error('the disk')) : Promise.resolve(composed(10));
    await assert.rejects(get(contents, 'a', encode), /the disk/);
    isBroken = false;
    assert.equal((await get(contents, 'a', encode)).content.body.length, 10);
  });
});
