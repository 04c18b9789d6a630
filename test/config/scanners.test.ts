import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ConfigError } from '../../src/config/load.ts';
import { readScanners } from '../../src/config/data-file.ts';

describe('config/scanners', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'ph-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });
  const written = (text: string): string => {
    const file = path.join(folder, 'scanners.yaml');
    writeFileSync(file, text);
    return file;
  };

  it('reads the file that comes with the program', () => {
    const rules = readScanners(null);
    assert.ok(rules.length > 5);
    for (const bot of ['apple_mpp', 'gmail_proxy', 'scanner', 'prefetch'])
      assert.ok(
        rules.some((rule) => rule.bot === bot),
        bot,
      );
  });

  it('fills in what a rule leaves out', () => {
    assert.deepEqual(readScanners(written("- name: ours\n  bot: scanner\n  networks: ['10.1.0.0/16']\n")), [
      { name: 'ours', bot: 'scanner', for: 'both', networks: ['10.1.0.0/16'], agents: [], exactly: [] },
    ]);
  });

  for (const [text, expected, why] of [
    ['- name: x\n  bot: robot\n  agents: [abc]\n', '0.bot', 'a bot nobody knows'],
    ['- name: x\n  bot: scanner\n', 'networks, agents or exactly', 'a rule without anything to go by'],
    ["- name: x\n  bot: scanner\n  networks: ['10.0.0.0/33']\n", '0.networks.0', 'no network'],
    ['- name: x\n  bot: scanner\n  agents: [a]\n', '0.agents.0', 'an agent so short that it is everywhere'],
    ['- name: x\n  bot: scanner\n  agent: [abc]\n', '0', 'a misspelt member'],
    ['name: x\n', 'expected array', 'no list'],
    ['- [', 'scanners.yaml', 'no YAML'],
    ['#'.repeat(2 ** 20 + 1), '1 MiB', 'a file that is too large'],
  ] as const) {
    it(`refuses ${why}, and says where`, () => {
      const file = written(text);
      assert.throws(
        () => readScanners(file),
        (error) => error instanceof ConfigError && error.message.includes(file) && error.message.includes(expected),
      );
    });
  }

  it('refuses a file that is not there', () => {
    assert.throws(() => readScanners(path.join(folder, 'nowhere.yaml')), /nowhere\.yaml: no such file/);
  });
});
