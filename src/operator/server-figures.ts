/** Figures of the running server itself: its ports for mail. */
import { gauge, type Family } from './exposition.ts';
import type { OperatorDeps } from './operation.ts';

export type ServerFigureDeps = Pick<OperatorDeps, 'listeners'>;

export function listenerFigures({ listeners }: Pick<ServerFigureDeps, 'listeners'>): Family[] {
  return [
    gauge(
      'posthorn_listener_up',
      'Whether the port for mail is open; 0 while another program has it.',
      listeners().map(({ name, open }) => ({ labels: { listener: name }, value: open === null ? 0 : 1 })),
    ),
  ];
}
