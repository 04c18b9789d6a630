/** Finds two listeners of the settings that name the same port, of which only one could be opened. Pure. */

interface Listening {
  readonly http: { readonly host: string; readonly port: number };
  readonly dashboard: { readonly port: number };
  readonly metrics: { readonly host: string; readonly port: number | null };
  readonly smtp: {
    readonly mx: { readonly host: string; readonly port: number };
    readonly submission: { readonly host: string; readonly port: number; readonly tlsPort: number };
  };
}

interface Place {
  setting: string;
  host: string;
  port: number;
}

/** Returns a line for each listener whose port another one has, on the same address or on all addresses. Port 0 takes a free one. */
export function portClashes({ http, dashboard, metrics, smtp }: Listening): string[] {
  const { mx, submission } = smtp;
  const places: Place[] = [
    { setting: 'http.port', host: http.host, port: http.port },
    // The dashboard shares the port of the API unless it has another one.
    ...(dashboard.port === http.port ? [] : [{ setting: 'dashboard.port', host: http.host, port: dashboard.port }]),
    ...(metrics.port === null ? [] : [{ setting: 'metrics.port', host: metrics.host, port: metrics.port }]),
    { setting: 'smtp.mx.port', host: mx.host, port: mx.port },
    { setting: 'smtp.submission.port', host: submission.host, port: submission.port },
    { setting: 'smtp.submission.tlsPort', host: submission.host, port: submission.tlsPort },
  ];
  return places.flatMap((place, at) => {
    const other = places.slice(0, at).find((earlier) => clash(earlier, place));
    if (other === undefined) return [];
    return [`${place.setting}: expected another port than ${other.setting}, found ${String(place.port)} for both`];
  });
}

const clash = (a: Place, b: Place): boolean =>
  a.port !== 0 &&
  a.port === b.port &&
  (isWildcard(a.host) || isWildcard(b.host) || addressesOf(a.host).some((one) => addressesOf(b.host).includes(one)));

const addressesOf = (host: string): readonly string[] => (host === 'localhost' ? ['127.0.0.1', '::1'] : [host]);

const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::';
