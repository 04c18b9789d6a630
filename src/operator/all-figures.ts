/** All figures that a node shows to the others. */
import type { OperatorDeps } from './deps.ts';
import { laneFigures } from './lanes.ts';
import { addressFigures } from './listings.ts';
import { machineFigures } from './needs/needs.ts';
import type { Figures } from './node-figures.ts';
import { sourceFigures } from './sources.ts';
import { lineFigures } from './watch.ts';

export const nodeFigures: readonly Figures<OperatorDeps, unknown>[] = [
  laneFigures,
  lineFigures,
  sourceFigures,
  machineFigures,
  addressFigures,
];
