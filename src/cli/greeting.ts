/** The text of a server that has started: its address, and a first mail to paste. Pure. */

interface Greeted {
  url: string;
  simulator: string;
  /** A key of the first start, shown only here; with null the text names a variable instead. */
  key: string | null;
  /** The link that makes the first administrator; null if there is one. */
  setUpLink?: string | null;
}

/** Returns commands that send a mail to the simulator and show its events, and the whole text for people. */
export function greeting({ url, simulator, key, setUpLink = null }: Greeted) {
  const base = reachable(url);
  // Single quotes would keep the shell from putting the variable in.
  const authorization = `-H "Authorization: Bearer ${key ?? '$POSTHORN_API_KEY'}"`;
  const mail = JSON.stringify({
    from: `Posthorn <hello@${simulator}>`,
    to: `delivered@${simulator}`,
    subject: 'First mail',
    text: 'Hello from Posthorn.',
  });
  const send = `curl -sS ${base}/v1/messages ${authorization} -H "Content-Type: application/json" -d '${mail}'`;
  const events = `curl -sS ${base}/v1/events ${authorization}`;
  const about =
    key === null
      ? 'Keys: posthorn keys create --name NAME --scopes send,message:read,event:read'
      : 'The key below is a test key: its mail is simulated. It is shown this once and ends in 7 days.';
  return {
    send,
    events,
    text: [
      '',
      `Posthorn is running at ${base}`,
      ...(setUpLink === null
        ? []
        : ['', 'Create the administrator of the dashboard (once, within 30 minutes):', setUpLink, '']),
      about,
      '',
      'Send a mail to the simulator:',
      send,
      '',
      'See the outcome:',
      events,
      '',
    ],
  };
}

/** Replaces an address that means all interfaces, as it cannot be dialled everywhere. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}
