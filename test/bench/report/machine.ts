/** Describes the machine of a run: figures of two machines can only be compared beside these. */
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export interface Machine {
  cores: number;
  model: string;
  memoryMiB: number;
  kernel: string;
  node: string;
  /** CPU time of one signature, in milliseconds. */
  rsaMs: number;
  ed25519Ms: number;
  /** Median time of a write of 4 KiB with its fsync in the folder for data, in milliseconds. */
  fsyncMs: number;
  /** Load of the last minute when the run began, without the run itself. */
  load: number;
  /** True if a battery feeds the machine, null if the machine does not say. */
  onBattery: boolean | null;
}

const SIGNATURES = 200;
const SYNCS = 200;
const PAGE = 4096;

export const describeMachine = (): Machine => ({
  cores: os.availableParallelism(),
  model: os.cpus()[0]?.model.trim() ?? 'unknown',
  memoryMiB: Math.round(os.totalmem() / 2 ** 20),
  kernel: `${os.type()} ${os.release()}`,
  node: process.version,
  load: os.loadavg()[0] ?? NaN,
  rsaMs: rsaSignatureMs(),
  ed25519Ms: signatureMs(generateKeyPairSync('ed25519').privateKey, null),
  fsyncMs: fsyncMs(os.tmpdir()),
  onBattery: isOnBattery(),
});

/** CPU time of one RSA-2048 signature here and now. */
export const rsaSignatureMs = (): number =>
  signatureMs(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey, 'sha256');

function signatureMs(key: KeyObject, digest: string | null): number {
  const data = Buffer.alloc(500, 'a');
  for (let n = 0; n < 20; n++) sign(digest, data, key);
  const before = process.cpuUsage();
  for (let n = 0; n < SIGNATURES; n++) sign(digest, data, key);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / SIGNATURES;
}

function fsyncMs(parent: string): number {
  const folder = mkdtempSync(path.join(parent, 'posthorn-fsync-'));
  const file = openSync(path.join(folder, 'f'), 'w');
  try {
    const page = Buffer.alloc(PAGE, 'a');
    const times = Array.from({ length: SYNCS }, () => {
      const started = performance.now();
      writeSync(file, page);
      fsyncSync(file);
      return performance.now() - started;
    });
    return times.toSorted((a, b) => a - b)[SYNCS / 2] ?? NaN;
  } finally {
    closeSync(file);
    rmSync(folder, { recursive: true });
  }
}

const SUPPLIES = '/sys/class/power_supply';

function isOnBattery(): boolean | null {
  if (!existsSync(SUPPLIES)) return null;
  const states = readdirSync(SUPPLIES)
    .map((name) => path.join(SUPPLIES, name, 'status'))
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'utf8').trim());
  return states.length === 0 ? null : states.includes('Discharging');
}

/** CPU time of the whole machine since its start, in ticks. */
export interface CpuTicks {
  all: number;
  idle: number;
  /** Given to other guests by the host of a virtual machine. */
  steal: number;
}

/** Reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. Guest time is in user already. */
export function parseTicks(stat: string): CpuTicks {
  const fields = (/^cpu +(.*)$/m.exec(stat)?.[1] ?? '').split(' ').slice(0, 8).map(Number);
  const [, , , idle = 0, iowait = 0, , , steal = 0] = fields;
  return { all: fields.reduce((sum, one) => sum + one, 0), idle: idle + iowait, steal };
}

export const cpuTicks = (): CpuTicks => parseTicks(readFileSync('/proc/stat', 'utf8'));

/** Returns the share of the processors' time that the host gave to others, in percent. */
export function stealPercent(before: CpuTicks, after: CpuTicks): number {
  const all = after.all - before.all;
  return all > 0 ? ((after.steal - before.steal) / all) * 100 : 0;
}
