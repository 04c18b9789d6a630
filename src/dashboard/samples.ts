/** Samples that send a first mail: with curl, the TypeScript client, Python, and by SMTP. Pure. */

interface Sampled {
  url: string;
  simulator: string;
  /** Without one, the samples name a placeholder. */
  key: string | null;
  /** The version of the TypeScript client; the newest if none is given. */
  version?: string;
  /** The sender and the recipient; those of the simulator if no domain may send yet. */
  from?: string;
  to?: string;
  /** The host and port for submission. */
  smtp?: string;
}

export function samplesOf({ url, simulator, key, version, smtp = '', ...mailed }: Sampled) {
  const shown = key ?? '$POSTHORN_API_KEY';
  const { from = `hello@${simulator}`, to = `delivered@${simulator}` } = mailed;
  const mail = { from: `Posthorn <${from}>`, to, subject: 'First mail', text: 'Hello.' };
  const pretty = JSON.stringify(mail, null, 2);
  return {
    curl: `curl -sS ${url}/v1/messages \\
  -H "Authorization: Bearer ${shown}" \\
  -H "Content-Type: application/json" \\
  -d '${JSON.stringify(mail)}'`,
    events: `curl -sS ${url}/v1/events \\
  -H "Authorization: Bearer ${shown}"`,
    TypeScript: `// npm install ${url}/v1/client${version === undefined ? '' : `-${version}`}.tgz
import { MailClient } from 'posthorn-client';

const mail = new MailClient({ baseUrl: '${url}' }); // the key is in POSTHORN_API_KEY
console.log(await mail.messages.send(${pretty}));`,
    Python: `import json, os, urllib.request

request = urllib.request.Request(
    "${url}/v1/messages",
    data=json.dumps(${pretty.replaceAll('\n', '\n    ')}).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["POSTHORN_API_KEY"],
        "Content-Type": "application/json",
    },
)
print(urllib.request.urlopen(request).read().decode())`,
    SMTP: `swaks --server ${smtp} --tls \\
  --auth-user apikey --auth-password "${shown}" \\
  --from ${from} --to ${to} --header "Subject: First mail" --body "Hello."`,
  };
}
