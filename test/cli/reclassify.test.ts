import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openReportParser } from '../../src/inbound/report-reader.ts';
import { ran } from './ran.ts';

describe('posthorn reclassify', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-reclassify-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('needs no server, and tells of attempts and of bounce mails', async () => {
    const rules = path.join(folder, 'rules.yaml');
    writeFileSync(rules, 'rules: [{ name: house, class: soft, reason: other, codes: [550] }]');
    const env = { POSTHORN_DATA_DIR: path.join(folder, 'data'), POSTHORN_DELIVERY__BOUNCE_RULES: rules };
    const program = {
      openReportParser: (...given: Parameters<typeof openReportParser>) => Promise.resolve(openReportParser(...given)),
    };
    const done = await ran(['reclassify', '--past', '2d'], env, program);
    assert.equal(
      done.out,
      '0 attempts are reclassified\n0 bounce mails are reclassified\n0 addresses left the suppression list',
      done.notes,
    );
    const tried = await ran(['reclassify', '--dry-run', '--json'], env, program);
    assert.deepEqual(JSON.parse(tried.out), {
      object: 'reclassification',
      attempts: 0,
      reports: 0,
      reports_unread: 0,
      unsuppressed: 0,
      dry_run: true,
    });
  });
});
