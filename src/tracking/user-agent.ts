/** Client, system and device as a User-Agent names them: a small table, for people who look at an event. Pure. */

export interface Agent {
  client: string | null;
  os: string | null;
  device: 'desktop' | 'phone' | 'tablet' | null;
}

/** The first match counts; an agent that also names others is listed before them. */
const CLIENTS: readonly (readonly [mark: string, name: string])[] = [
  ['GoogleImageProxy', 'Gmail'],
  ['YahooMailProxy', 'Yahoo Mail'],
  ['Thunderbird', 'Thunderbird'],
  ['Microsoft Outlook', 'Outlook'],
  ['MSOffice', 'Outlook'],
  ['Outlook-iOS', 'Outlook'],
  ['Outlook-Android', 'Outlook'],
  ['SamsungBrowser', 'Samsung Internet'],
  ['Edg/', 'Edge'],
  ['EdgA/', 'Edge'],
  ['EdgiOS/', 'Edge'],
  ['OPR/', 'Opera'],
  ['Vivaldi', 'Vivaldi'],
  ['FxiOS', 'Firefox'],
  ['Firefox', 'Firefox'],
  ['CriOS', 'Chrome'],
  ['Chrome', 'Chrome'],
  ['Safari', 'Safari'],
  ['AppleWebKit', 'Apple Mail'],
];

const SYSTEMS: readonly (readonly [mark: string, name: string])[] = [
  ['iPhone', 'iOS'],
  ['iPad', 'iPadOS'],
  ['Android', 'Android'],
  ['Windows', 'Windows'],
  ['CrOS', 'ChromeOS'],
  ['Mac OS X', 'macOS'],
  ['Macintosh', 'macOS'],
  ['Linux', 'Linux'],
];

/** Longer ones are cut: the table looks through the text once for each of its rows. */
const LONGEST = 512;

export function readAgent(userAgent: string | null): Agent {
  const text = (userAgent ?? '').slice(0, LONGEST);
  const named = (table: typeof CLIENTS): string | null => table.find(([mark]) => text.includes(mark))?.[1] ?? null;
  const os = named(SYSTEMS);
  // A proxy does not show who is behind it.
  if (text.includes('ImageProxy') || text.includes('MailProxy'))
    return { client: named(CLIENTS), os: null, device: null };
  return { client: named(CLIENTS), os, device: deviceOf(text, os) };
}

function deviceOf(text: string, os: string | null): Agent['device'] {
  if (os === null) return null;
  if (os === 'iPadOS') return 'tablet';
  // Android tablets leave the word out.
  if (os === 'Android') return text.includes('Mobile') ? 'phone' : 'tablet';
  return os === 'iOS' ? 'phone' : 'desktop';
}
