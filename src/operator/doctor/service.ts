/** Checks of the running server: its listeners, and whether it recognises a bounce. */
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

type Needs = Pick<Probes, 'server' | 'config'>;

export function listeners({ server, config }: Needs): Promise<readonly Verdict[]> {
  if (server.kind === 'missing') return Promise.resolve([warning(`not looked at: ${server.why}`, server.cure)]);
  const { smtp } = config;
  const ports = server.ports();
  const faults = (
    [
      ['mx', smtp.mx.port, 'bounces', 'smtp.mx.port'],
      ['submission', smtp.submission.port, 'submission', 'smtp.submission.port'],
      ['submissions', smtp.submission.tlsPort, 'submission by TLS', 'smtp.submission.tlsPort'],
    ] as const
  ).flatMap(([door, port, what, setting]) =>
    ports[door] === null
      ? [
          failed(
            `the port for ${what}, ${String(port)}, could not be had at the start`,
            `Find what holds it (ss -ltnp 'sport = :${String(port)}'), stop that or choose another port with \`${setting}\`, and restart.`,
          ),
        ]
      : [],
  );
  const open = [
    `bounces ${String(ports.mx)}`,
    `submission ${String(ports.submission)} and ${String(ports.submissions)}`,
  ];
  return Promise.resolve(orWell(faults, open.join(', ')));
}

export async function bounce({ server }: Needs): Promise<Verdict> {
  if (server.kind === 'missing') return warning(`not tried: ${server.why}`, server.cure);
  if (server.ports().mx === null)
    return failed('there is no listener that could hear a bounce', 'See the line of `listeners`.');
  const test = await server.selfTest();
  if (test.ok) return ok(`a bounce sent to ourselves was recognised after ${String(Math.round(test.ms))} ms`);
  return failed(
    `a bounce sent to ourselves was not recognised: ${test.why ?? 'no reason is given'}`,
    'The log says more (event `report_failed` or `smtp_failed`); a restart also restarts the reader of reports.',
  );
}
