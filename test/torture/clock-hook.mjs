/** Loaded into a server with `--import`: its clock is as many milliseconds ahead as the file says that TORTURE_CLOCK names; 0 without it. */
import { readFileSync } from 'node:fs';

const LOOK_MS = 200;
const real = Date.now;
let ahead = 0;
setInterval(() => {
  try {
    ahead = Number(readFileSync(process.env['TORTURE_CLOCK'] ?? '', 'utf8'));
  } catch {
    // The file is written by the first fault that moves this clock.
  }
}, LOOK_MS).unref();
Date.now = () => real() + ahead;
