/** Checks that the settings in force are the written ones, as an edit works only after a reload or a restart, and fit this machine. */
import type { SettingsState } from '../../config/settings-state.ts';
import { absentSources, linksFaults } from '../setup-warnings.ts';
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

export async function settings({ server, config }: Probes): Promise<readonly Verdict[]> {
  const links = linksFaults(config).map((why) =>
    warning(why, 'Set it to the address under which recipients reach this server, such as https://mail.example.com.'),
  );
  const absent = (await absentSources(config)).map(({ why }) =>
    failed(why, 'Correct `delivery.sources`, or add the address to this machine (ip address add).'),
  );
  const faults = [...links, ...absent];
  if (server.kind === 'missing')
    return orWell(faults, 'they have no mistakes; no server is running that could have others in force');
  const proxies = server.unknownProxies().map((ip) => {
    const why = `${ip} sends X-Forwarded-For and is not in \`http.trustedProxies\`: all clients behind it count as one, for budgets, allowed addresses and the audit log`;
    return warning(why, `If it is your proxy, add ${ip} to \`http.trustedProxies\`, and restart.`);
  });
  return [...verdictsOn(server.settings()), ...faults, ...proxies];
}

export function verdictsOn(state: SettingsState): readonly Verdict[] {
  switch (state.kind) {
    case 'in_force':
      return [ok('those that are written are in force')];
    case 'bad':
      return [
        failed(
          `they were edited and have mistakes, so that the next start would fail: ${state.mistakes.join('; ')}`,
          'Correct them (posthorn config check), then: systemctl reload posthorn',
          { copy: ['posthorn config check'] },
        ),
      ];
    case 'edited':
      return [edited(state.changes)];
  }
}

/** A restart applies all of them. */
function edited({ applied, needRestart }: Extract<SettingsState, { kind: 'edited' }>['changes']): Verdict {
  const names = [...applied, ...needRestart].join(', ');
  const command = `systemctl ${needRestart.length > 0 ? 'restart' : 'reload'} posthorn`;
  return warning(
    `edited and not in force yet: ${names}`,
    needRestart.length > 0
      ? `Run: ${command} - without systemd, stop the server and start it again.`
      : `Run: ${command} - without systemd, send it SIGHUP.`,
    { copy: [command] },
  );
}
