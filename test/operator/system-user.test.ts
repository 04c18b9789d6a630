import assert from 'node:assert/strict';
import { userInfo } from 'node:os';
import { agentOf, systemUser } from '../../src/operator/door/socket.ts';

describe('operator/system-user', () => {
  const { username } = userInfo();

  it('is the system user, with the one who used sudo', () => {
    assert.equal(systemUser({}), username);
    assert.equal(systemUser({ SUDO_USER: 'lea' }), `${username} (sudo by lea)`);
    assert.equal(systemUser({ SUDO_USER: 'lea\nx' }), username);
    assert.equal(systemUser({ SUDO_USER: username }), username);
  });

  it('is kept only in a form that a name may have', () => {
    assert.equal(agentOf('root (sudo by lea)'), 'cli:root (sudo by lea)');
    for (const odd of [undefined, '', 'a b', 'a\u0000', 'x'.repeat(65), '<b>', 'lea (sudo by )'])
      assert.equal(agentOf(odd), null, String(odd));
  });
});
