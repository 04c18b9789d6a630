/** What the account sets for itself, the limits of its plan and how much of them is used. */
import { Problem } from '../../base/problem.ts';
import type { DashboardDeps } from '../deps.ts';
import { filledIn, numberOf } from '../forms.ts';
import { get, move, post, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/settings';

interface Settings {
  track_opens: boolean;
  track_clicks: boolean;
  retention: Record<'content_days' | 'messages_days' | 'events_days', number>;
}

export function settingsPages({ version }: Pick<DashboardDeps, 'version'>): Page[] {
  return [get(WHERE, (visit) => show(version, visit, null)), post(WHERE, (visit) => change(version, visit))];
}

async function show(version: string, visit: Visit, fault: Problem | null): Promise<Shown> {
  const settings = await visit.ask<Settings>('getSettings');
  const entered = fault === null ? settings.retention : filledIn(visit.form);
  return view('settings', 'Settings', { settings, entered, fault, version }, fault?.status ?? 200);
}

async function change(version: string, visit: Visit): Promise<Shown> {
  const { form } = visit;
  const retention = Object.fromEntries(
    ['content_days', 'messages_days', 'events_days'].map((name) => [name, numberOf(form, name) ?? null]),
  );
  const body = {
    track_opens: form.get('track_opens') !== null,
    track_clicks: form.get('track_clicks') !== null,
    retention,
  };
  try {
    await visit.ask('updateSettings', { body });
    return move(WHERE, 'Changed.');
  } catch (error) {
    if (error instanceof Problem) return show(version, visit, error);
    throw error;
  }
}
