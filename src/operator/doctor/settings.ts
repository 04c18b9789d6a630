/** Checks that the settings in force are the written ones: an edit works only after a reload or a restart. */
import type { SettingsState } from '../../config/settings-state.ts';
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

export function settings({ server }: Pick<Probes, 'server'>): Promise<readonly Verdict[]> {
  if (server.kind === 'missing')
    return Promise.resolve([ok('they have no mistakes; no server is running that could have others in force')]);
  return Promise.resolve(verdictsOn(server.settings()));
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
