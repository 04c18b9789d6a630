/** Templates to begin with: five mails that most programs send, and values for a sample. Pure. */

/** A mail for the light and the dark: one column, the fonts of the system, no pictures. */
const mail = (body: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<style>
:root { color-scheme: light dark }
body { margin: 0; padding: 24px; font: 16px/1.5 system-ui, sans-serif }
.mail { max-width: 560px; margin: 0 auto }
.button { display: inline-block; padding: 10px 18px; border-radius: 8px; background: #4a51d4; color: #fff; text-decoration: none }
table { width: 100%; border-collapse: collapse }
td { padding: 6px 0; border-bottom: 1px solid #8886 }
td + td { text-align: right }
.small { font-size: 13px; opacity: .7 }
</style>
</head>
<body>
<div class="mail">
${body}
</div>
</body>
</html>
`;

export const starters = [
  {
    id: 'welcome',
    name: 'Welcome',
    subject: 'Welcome, {{ name }}',
    html: mail(`<h1>Welcome, {{ name }}</h1>
<p>Your account is ready. Here is where it begins:</p>
<p><a class="button" href="{{ url }}">Open your account</a></p>
<p class="small">You get this mail because someone made an account with this address.</p>`),
    sample: { name: 'Ana', url: 'https://acme.example/start' },
  },
  {
    id: 'password',
    name: 'Password reset',
    subject: 'Set a new password',
    html: mail(`<h1>Set a new password</h1>
<p>Someone asked for a new password for {{ email }}. The link is good for {{ minutes }} minutes.</p>
<p><a class="button" href="{{ url }}">Set a new password</a></p>
<p class="small">If it was not you, leave it: nothing changes.</p>`),
    sample: { email: 'ana@example.net', minutes: 30, url: 'https://acme.example/reset/1' },
  },
  {
    id: 'code',
    name: 'Sign-in code',
    subject: '{{ code }} is your code',
    html: mail(`<h1>{{ code }}</h1>
<p>Enter this code to sign in. It is good for {{ minutes }} minutes.</p>
<p class="small">Nobody of us asks you for it.</p>`),
    sample: { code: '471 208', minutes: 10 },
  },
  {
    id: 'receipt',
    name: 'Receipt',
    subject: 'Your order {{ order.number }}',
    html: mail(`<h1>Thank you, {{ name }}</h1>
<p>Order {{ order.number }} of {{ order.date }}</p>
<table>
{% for item in order.items %}<tr><td>{{ item.count }} × {{ item.title }}</td><td>{{ item.price }}</td></tr>
{% endfor %}<tr><td><strong>Total</strong></td><td><strong>{{ order.total }}</strong></td></tr>
</table>`),
    sample: {
      name: 'Ana',
      order: {
        number: '88777',
        date: '31 January 2026',
        total: '17.50 €',
        items: [
          { count: 2, title: 'Tea', price: '9.00 €' },
          { count: 1, title: 'Cup', price: '8.50 €' },
        ],
      },
    },
  },
  {
    id: 'invitation',
    name: 'Invitation',
    subject: '{{ host }} invites you to {{ team }}',
    html: mail(`<h1>Join {{ team }}</h1>
<p>{{ host }} invites you to work in {{ team }}.</p>
<p><a class="button" href="{{ url }}">Accept the invitation</a></p>
<p class="small">The link is good for {{ days }} days.</p>`),
    sample: { host: 'Bo', team: 'Acme', url: 'https://acme.example/join/1', days: 7 },
  },
];

/** What a template reads of a value: its members by name, and of a list each item as the member `[]`. */
type Shape = Map<string, Shape>;

/** Returns a sample with a value for each path that a template reads and that has none yet; a list has two items. */
export function sampleFor(paths: readonly string[], kept: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const filled = Object.entries(kept).filter(([, value]) => value !== '');
  const root = new Map<string, Shape>();
  for (const path of paths) {
    let at = root;
    for (const name of path.replaceAll('[]', '.[]').split('.')) {
      const next = at.get(name) ?? new Map<string, Shape>();
      at.set(name, next);
      at = next;
    }
  }
  return { ...membersOf(root, 0), ...Object.fromEntries(filled) };
}

const membersOf = (shape: Shape, nth: number): Record<string, unknown> =>
  Object.fromEntries([...shape].map(([name, own]) => [name, valueOf(name, own, nth)]));

function valueOf(name: string, shape: Shape, nth: number): unknown {
  const item = shape.get('[]');
  if (item !== undefined) return [1, 2].map((one) => valueOf(name, item, one));
  return shape.size > 0 ? membersOf(shape, nth) : leafOf(name, nth);
}

const things = ['Blue mug', 'Oak shelf'];

/** Returns a value that fits a name; `nth` is the item of the list that it is in, from 1, or 0. */
function leafOf(name: string, nth: number): unknown {
  if (/(?:url|link|href)$/i.test(name)) return 'https://acme.example/';
  if (/price|amount|total|cost/i.test(name)) return nth === 2 ? 49.5 : 12.9;
  if (/quantity|qty|count$/i.test(name)) return Math.max(1, nth);
  if (/date$|_at$/i.test(name)) return '2026-01-31';
  if (/number$|(?:^|_)(?:id|no)$/i.test(name)) return `10${String(42 + nth)}`;
  const words = name.replaceAll('_', ' ');
  return nth === 0
    ? words
    : /name|title|product|item|description/i.test(name)
      ? things[nth - 1]
      : `${words} ${String(nth)}`;
}
