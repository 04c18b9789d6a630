/** Samples that send a first mail: with curl, the TypeScript client, Python, and by SMTP. Pure. */

export interface Samples {
  curl: string;
  events: string;
  typescript: string;
  python: string;
  smtp: string;
}

/** Returns the commands; without a `key` they name a placeholder. */
export function sampleCommands({
  url,
  simulator,
  key,
  version,
  from = `hello@${simulator}`,
  to = `delivered@${simulator}`,
  smtp = null,
}: {
  url: string;
  simulator: string;
  key: string | null;
  /** The version of the TypeScript client; the newest if none is given. */
  version?: string;
  /** The sender; one of the simulator's own if no domain may send yet. */
  from?: string;
  /** The recipient; one of the simulator's if none is given. */
  to?: string;
  /** The host and port for submission; null if programs cannot send by SMTP. */
  smtp?: { host: string; port: number } | null;
}): Samples {
  const shown = key ?? '$POSTHORN_API_KEY';
  const mail = {
    from: `Posthorn <${from}>`,
    to,
    subject: 'First mail',
    text: 'Hello.',
  };
  const json = JSON.stringify(mail);
  const pretty = JSON.stringify(mail, null, 2).replaceAll('\n', '\n  ');
  return {
    curl: `curl -sS ${url}/v1/messages \\\n  -H "Authorization: Bearer ${shown}" \\\n  -H "Content-Type: application/json" \\\n  -d '${json}'`,
    events: `curl -sS ${url}/v1/events \\\n  -H "Authorization: Bearer ${shown}"`,
    typescript: `// npm install ${url}/v1/client${version === undefined ? '' : `-${version}`}.tgz
import { MailClient } from 'posthorn-client';

const mail = new MailClient({ baseUrl: '${url}' }); // the key is in POSTHORN_API_KEY
console.log(await mail.messages.send(${pretty.replaceAll('\n  ', '\n')}));`,
    python: `import json, os, urllib.request

request = urllib.request.Request(
    "${url}/v1/messages",
    data=json.dumps(${pretty.replaceAll('\n  ', '\n    ')}).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["POSTHORN_API_KEY"],
        "Content-Type": "application/json",
    },
)
print(urllib.request.urlopen(request).read().decode())`,
    smtp:
      smtp === null
        ? ''
        : `swaks --server ${smtp.host}:${String(smtp.port)} --tls \\
  --auth-user apikey --auth-password "${shown}" \\
  --from ${from} --to ${to} --header "Subject: First mail" --body "Hello."`,
  };
}
