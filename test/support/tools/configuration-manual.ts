/** Makes docs/configuration.md and config/posthorn.yaml from the schema, so that they always agree with it. */
import { stringify } from 'yaml';
import type { z } from 'zod';
import { notes, type SettingNote } from '../../../src/config/kind.ts';
import { settings } from '../../../src/config/schema.ts';

interface Entry {
  path: readonly string[];
  about: string;
  /** Null for a group. */
  setting: SettingNote | null;
}

function entriesOf(schema: z.ZodType, path: readonly string[] = []): Entry[] {
  const note = notes.get(schema);
  if (note === undefined) return [];
  if (note.is === 'setting') return [{ path, about: note.about, setting: note }];
  const members = Object.entries(note.members).flatMap(([name, member]) => entriesOf(member, [...path, name]));
  return path.length === 0 ? members : [{ path, about: note.about, setting: null }, ...members];
}

const INTRODUCTION = `# Configuration

<!-- Made from src/config/schema.ts by \`npm run docs\`; do not edit by hand. -->

Settings come from one YAML file and from environment variables, which win. The file is the first of: the one of \`--config\`, the one of \`POSTHORN_CONFIG\`, \`/etc/posthorn/posthorn.yaml\`, \`config/posthorn.yaml\` under the working directory. None is needed.

- **Variables**: \`POSTHORN_\` and the path in capitals, with \`__\` between levels and \`_\` between words: \`delivery.dnsServers\` is \`POSTHORN_DELIVERY__DNS_SERVERS\`. An unknown one is a warning at the start.
- **Secrets from files**: a variable that ends in \`_FILE\` names a file with the value: \`POSTHORN_DELIVERY__ROUTES_FILE=/run/secrets/routes.json\`. A systemd credential with the name of the setting does the same (\`LoadCredential=delivery.routes:/etc/posthorn/routes.json\`), and so does each file of a folder that is handed over (\`LoadCredential=setting:/etc/posthorn/credentials\`).
- **In variables** lists are separated by commas or written as JSON, and maps are JSON.
- **Durations** have a unit: \`250ms\`, \`1s\`, \`5m\`, \`1h\`, \`30d\`. **Sizes** are bytes or have one of B, KiB, MiB, GiB, TiB: \`512MiB\`. In paths \`~\` has no meaning.
- **Mistakes** are reported all at once, with exit code 78. \`posthorn config check\` only checks; \`posthorn config show\` prints what is in effect and where it came from.
`;

/** Returns the text of docs/configuration.md. */
export function configurationManual(): string {
  const sections = entriesOf(settings).map((entry) =>
    entry.setting === null ? groupSection(entry) : settingSection(entry, entry.setting),
  );
  return [INTRODUCTION, ...sections].join('\n');
}

const groupSection = ({ path, about }: Entry): string => `## ${path.join('.')}\n\n${about}\n`;

function settingSection({ path, about }: Entry, note: SettingNote): string {
  const name = path.join('.');
  const fallback = note.fallbackText ?? (note.fallback === null ? 'none' : `\`${inline(note.fallback)}\``);
  return `### \`${name}\`\n\n${about}\n\nDefault: ${fallback}${valueOf(note.expected)}.\n`;
}

/** Returns the text of config/posthorn.yaml: every setting, commented out, with its default. */
export function exampleSettings(): string {
  const head =
    '# Every setting with its default. Made from src/config/schema.ts by `npm run docs`; see docs/configuration.md.\n';
  return head + entriesOf(settings).map(yamlLines).join('');
}

function yamlLines({ path, about, setting }: Entry): string {
  const indent = '  '.repeat(path.length - 1);
  const name = path.at(-1) ?? '';
  if (setting === null) return `${path.length === 1 ? '\n' : ''}# ${indent}${name}: # ${about}\n`;
  const value =
    setting.fallback === null
      ? `# default: ${setting.fallbackText ?? 'none'}`
      : `${inline(setting.fallback)}${remark(setting)}`;
  return `# ${indent}${name}: ${value}\n# ${indent}  # ${about}\n`;
}

const remark = ({ fallbackText }: SettingNote): string => (fallbackText === null ? '' : ` # ${fallbackText}`);

/** The values that a setting takes. The default shows the kind of a number, flag or path, and the introduction has the units. */
function valueOf(expected: string): string {
  if (/^(?:a file path|true or false)\b/.test(expected)) return '';
  const range = /^a (?:duration|port number|size|whole number) from | \(units [^)]+\)| such as .+$/g;
  return `. Value: ${expected.replace(range, '').replace(/^a list of at most (\d+) entries, each/, 'up to $1, each')}`;
}

/** Writes a value as YAML on one line. */
function inline(value: unknown): string {
  if (value === null) return 'none';
  return stringify(value, { collectionStyle: 'flow', lineWidth: 0, flowCollectionPadding: false }).trim();
}
