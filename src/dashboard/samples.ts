/** Sample commands that send a first mail, for curl, TypeScript and Python. Pure. */

export interface Samples {
  curl: string;
  events: string;
  typescript: string;
  python: string;
}

/** Returns the commands; without a `key` they name a placeholder. */
export function sampleCommands({
  url,
  simulator,
  key,
  from = `hello@${simulator}`,
}: {
  url: string;
  simulator: string;
  key: string | null;
  /** The sender; one of the simulator's own if no domain may send yet. */
  from?: string;
}): Samples {
  const shown = key ?? '$POSTHORN_API_KEY';
  const mail = {
    from: `Posthorn <${from}>`,
    to: `delivered@${simulator}`,
    subject: 'First mail',
    text: 'Hello.',
  };
  const json = JSON.stringify(mail);
  const pretty = JSON.stringify(mail, null, 2).replaceAll('\n', '\n  ');
  return {
    curl: `curl -sS ${url}/v1/messages \\\n  -H "Authorization: Bearer ${shown}" \\\n  -H "Content-Type: application/json" \\\n  -d '${json}'`,
    events: `curl -sS ${url}/v1/events \\\n  -H "Authorization: Bearer ${shown}"`,
    typescript: `const answer = await fetch('${url}/v1/messages', {
  method: 'POST',
  headers: {
    Authorization: \`Bearer \${process.env.POSTHORN_API_KEY}\`,
    'Content-Type': 'application/json',
    'Idempotency-Key': crypto.randomUUID(),
  },
  body: JSON.stringify(${pretty}),
});
console.log(await answer.json());`,
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
  };
}
