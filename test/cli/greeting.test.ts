import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { greeting } from '../../src/cli/serve.ts';

/** Reads a command line as a shell does: returns the arguments of `curl`. */
function pasted(command: string, env: Record<string, string> = {}): string[] {
  const script = `curl() { for a in "$@"; do printf '%s\\0' "$a"; done; }\n${command}`;
  const { stdout, status } = spawnSync('sh', ['-c', script], { encoding: 'utf8', env });
  assert.equal(status, 0);
  return stdout.split('\0').slice(0, -1);
}

describe('cli/greeting', () => {
  const simulator = 'simulator.posthorn.test';

  it('gives commands that a shell reads as they are meant', () => {
    const { send, events, text } = greeting({ url: 'http://127.0.0.1:8025', simulator, key: 'ak_test_x' });
    const [, address, , authorization, , type, , body] = pasted(send);
    assert.deepEqual(
      [address, authorization, type],
      ['http://127.0.0.1:8025/v1/messages', 'Authorization: Bearer ak_test_x', 'Content-Type: application/json'],
    );
    const mail = JSON.parse(body ?? '') as Record<string, string>;
    assert.deepEqual([mail['from'], mail['to']], [`Posthorn <hello@${simulator}>`, `delivered@${simulator}`]);
    assert.equal(pasted(events)[1], 'http://127.0.0.1:8025/v1/events');
    assert.ok(text.includes(send) && text.includes(events), 'each on a line of its own');
  });

  it('leaves the key to the reader where there is none to show', () => {
    const { send, text } = greeting({ url: 'http://127.0.0.1:8025', simulator, key: null });
    assert.ok(pasted(send, { POSTHORN_API_KEY: 'mine' }).includes('Authorization: Bearer mine'));
    assert.match(text.join('\n'), /posthorn keys create/);
  });

  it('shows the set-up link while there is no administrator', () => {
    const link = 'http://127.0.0.1:8025/setup/abc';
    const shown = greeting({ url: 'http://127.0.0.1:8025', simulator, key: null, setUpLink: link });
    assert.ok(shown.text.includes(link), 'on a line of its own');
    assert.doesNotMatch(greeting({ url: 'http://127.0.0.1:8025', simulator, key: null }).text.join(), /setup/);
  });

  for (const [url, shown] of [
    ['http://0.0.0.0:80', 'http://127.0.0.1:80/'],
    ['http://[::]:80', 'http://[::1]:80/'],
    ['http://192.0.2.1:80', 'http://192.0.2.1:80/'],
  ] as const) {
    it(`shows ${url} as ${shown}`, () => {
      assert.ok(pasted(greeting({ url, simulator, key: 'k' }).events)[1]?.startsWith(shown));
    });
  }
});
