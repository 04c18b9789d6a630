/** Of which processes it can be said whether they live: those of the same run of the same kernel, in one namespace. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { livesHere } from '../../../src/storage/postgres/node-life.ts';
import { machineOf, readMachine } from '../../../src/storage/postgres/node-life.ts';

const BOOT = '0f5b6c1e-9d3a-4c58-8f57-2a1b3c4d5e6f';
const FIRST = 'pid:[4026531836]';

describe('storage/postgres/machine', () => {
  const named = `${BOOT} ${FIRST}`;
  for (const [what, bootId, pidNamespace, expected] of [
    ['both, as the kernel writes them', `${BOOT}\n`, FIRST, named],
    ['a boot as systemd writes it', BOOT.replaceAll('-', ''), FIRST, named],
    ['a namespace of a container', BOOT, 'pid:[4026532561]', `${BOOT} pid:[4026532561]`],
    ['no boot, as under ProcSubset=pid', null, FIRST, null],
    ['no namespace', BOOT, null, null],
    ['neither, as on other systems', null, null, null],
    ['a boot that systemd has not filled in', '%b', FIRST, null],
    ['an empty boot', '', FIRST, null],
    ['a boot of zeros', '0'.repeat(32), FIRST, null],
    ['the name of the machine in place of the boot', 'mail.example.com', FIRST, null],
    ['another text in place of the namespace', BOOT, '4026531836', null],
  ] as const)
    it(`${expected === null ? 'knows nothing of' : 'names'} ${what}`, () => {
      assert.equal(machineOf({ bootId, pidNamespace }), expected);
    });

  it('prefers what the kernel says', () => {
    const own = readMachine();
    assert.equal(readMachine('1'.repeat(32)), own ?? readMachine('1'.repeat(32)));
  });

  it('is told the boot by the unit, which hides the file of the kernel', () => {
    const unit = readFileSync(path.resolve(import.meta.dirname, '../../../systemd/posthorn.service'), 'utf8');
    assert.match(unit, /^ProcSubset=pid$/m);
    assert.match(unit, /^Environment=POSTHORN_BOOT_ID=%b$/m);
  });
});

describe('storage/postgres/node-life: a process of another node', () => {
  /** No process has so high a number. */
  const GONE = 2 ** 22 + 1;
  const HERE = `${BOOT} ${FIRST}`;
  for (const [what, theirs, ours, pid, expected] of [
    ['that is gone is dead', HERE, HERE, GONE, false],
    ['that is there lives', HERE, HERE, process.ppid, true],
    ['whose number this one has now is dead', HERE, HERE, process.pid, false],
    ['of another boot cannot be seen', `other ${FIRST}`, HERE, GONE, null],
    ['of another container cannot be seen', `${BOOT} pid:[4026532561]`, HERE, GONE, null],
    ['cannot be seen where our own machine is not known', HERE, null, GONE, null],
    ['cannot be seen where neither is known', '', null, GONE, null],
    ['that wrote a name of its machine cannot be seen', 'mail', HERE, GONE, null],
  ] as const)
    it(what, () => {
      assert.equal(livesHere({ epoch: 1, machine: theirs, process: 'another', pid }, ours), expected);
    });
});
