import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { createMachine, softLimitIn } from '../../../src/operator/doctor/machine.ts';
import { Patient } from './healthy.ts';

const limits = (soft: string): string =>
  `Limit                     Soft Limit           Hard Limit           Units     \n` +
  `Max processes             96365                96365                processes \n` +
  `Max open files            ${soft.padEnd(20)} 1048576              files     \n`;

describe('the limit of open files', () => {
  it('is the soft one of the table, and unknown without one', () => {
    assert.equal(softLimitIn(limits('1024')), 1024);
    assert.equal(softLimitIn(limits('unlimited')), null);
    assert.equal(softLimitIn(''), null);
  });

  it('is read of this process', async function () {
    if (!existsSync('/proc/self/limits')) this.skip();
    const patient = await Patient.open();
    const found = createMachine(patient.config()).mostOpenFiles();
    assert.ok(found === null || found > 0);
    await patient.close();
  });
});
