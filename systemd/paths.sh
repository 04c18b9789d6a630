#!/bin/sh
# Lets the sandbox of both units write where the settings put the data, the database and the backups, has them wait for the disks of these, and
# switches the nightly backup off on PostgreSQL: a drop-in for each unit, made from `dataDir`, `backup.dir` and `storage.url`. install.sh runs it; run it again, as root, after
# you have changed one.
#
#   /opt/posthorn/systemd/paths.sh [--root FOLDER]
set -eu
umask 022

. "$(dirname "$0")/common.sh"

root=
while [ $# -gt 0 ]; do
  case "$1" in
  --root)
    take_root "${2:-}"
    shift
    ;;
  -h | --help)
    show_help "$0"
    exit 0
    ;;
  *) fail "unknown option $1 (see --help)" ;;
  esac
  shift
done
need_root /opt/posthorn/systemd/paths.sh

program=$(cd "$(dirname "$0")/.." && pwd)/src/bin/posthorn.cjs
units=$root/etc/systemd/system
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The settings as the service reads them: its file, its credentials, and paths from the folder that it starts in.
home=/var/lib/posthorn
[ -d "$root$home" ] || fail "there is no folder $root$home: run install.sh first"
(cd "$root$home" && CREDENTIALS_DIRECTORY="$root/etc/posthorn/credentials" node "$program" --config "$root/etc/posthorn/posthorn.yaml" config show --json) \
  >"$scratch/settings" 2>"$scratch/mistakes" || fail "the settings have mistakes, so the folders of the units stay as they are: $(cat "$scratch/mistakes")"

# Writes the folders that the units do not allow by themselves into `folders`, and the drop-ins of both units.
node - "$scratch" "$home" "$(cd "$root/" && pwd -P)" <<'SCRIPT'
const fs = require('node:fs');
const path = require('node:path');
const [, , scratch, home, root] = process.argv;
const { dataDir: data, backup, storage } = JSON.parse(fs.readFileSync(`${scratch}/settings`, 'utf8'));
// A relative path was found below the folder where the system is mounted.
const inSystem = (folder) => (root !== '/' && folder.startsWith(`${root}/`) ? folder.slice(root.length) : folder);
const dataDir = inSystem(data);
const sqlite = /^sqlite:(.+)$/s.exec(storage.url)?.[1];
const ofDatabase = sqlite === undefined ? [] : [path.dirname(path.resolve(home, inSystem(sqlite)))];
const usual = ['/var/lib/posthorn', '/var/backups/posthorn'];
const isUsual = (folder) => usual.some((one) => folder === one || folder.startsWith(`${one}/`));
const folders = [...new Set([dataDir, ...ofDatabase, inSystem(backup.dir)])].filter((folder) => !isUsual(folder));
const wrong = [dataDir, ...ofDatabase, inSystem(backup.dir)].find((folder) => /["\\\n]/.test(folder));
if (wrong !== undefined) {
  console.error(`posthorn: a unit cannot name the folder ${JSON.stringify(wrong)}`);
  process.exit(1);
}
const written = (folder) => folder.replaceAll('%', '%%');
// A folder that is missing must not keep the service from starting: the doctor names it.
const service = folders.map((folder) => `ReadWritePaths="-${written(folder)}"\n`).join('');
const head = '# Made by systemd/paths.sh from the settings dataDir, backup.dir and storage.url; it is replaced by each upgrade.\n';
const condition =
  dataDir === usual[0] ? '' : `ConditionPathExists=\nConditionPathExists=${written(dataDir)}/secret.key\n`;
// A volume that is mounted late: on the empty folder under it the server would begin a new database. The unit waits for the usual one itself. A disk
// for backups that is away must not keep mail from being taken.
const mountsFor = (needed) =>
  [...new Set(needed)]
    .filter((folder) => !usual.includes(folder))
    .map((folder) => `RequiresMountsFor="${written(folder)}"\n`)
    .join('');
const ofData = [dataDir, ...ofDatabase];
const mounts = mountsFor(ofData);
const mountsOfBackup = mountsFor([...ofData, inSystem(backup.dir)]);
fs.writeFileSync(`${scratch}/folders`, folders.map((folder) => `${folder}\n`).join(''));
// A unit whose condition does not hold is skipped: PostgreSQL is backed up with pg_dump.
const never = /^postgres(ql)?:/.test(storage.url) ? 'ConditionPathExists=!/\n' : '';
const unit = (name, text) => fs.writeFileSync(`${scratch}/${name}`, text === '' ? '' : `${head}${text}`);
unit(
  'posthorn.service',
  [mounts && `[Unit]\n${mounts}`, service && `[Service]\n${service}`].filter((part) => part !== '').join('\n'),
);
unit(
  'posthorn-backup.service',
  condition + never + mountsOfBackup + service === ''
    ? ''
    : `[Unit]\n${condition}${never}${mountsOfBackup}\n[Service]\n${service}`,
);
SCRIPT

changed=no
for unit in posthorn.service posthorn-backup.service; do
  place=$units/$unit.d/10-folders.conf
  if [ ! -s "$scratch/$unit" ]; then
    [ ! -e "$place" ] || { rm -f "$place" && changed=yes; }
    rmdir "$units/$unit.d" 2>/dev/null || true
  elif ! cmp -s "$scratch/$unit" "$place"; then
    mkdir -p "$units/$unit.d"
    cp "$scratch/$unit" "$place.new"
    chmod 644 "$place.new"
    mv "$place.new" "$place"
    changed=yes
  fi
done

owner=$(sed -n 's/^posthorn:[^:]*:\([0-9]*\):\([0-9]*\):.*/\1:\2/p' "$root/etc/passwd")
while IFS= read -r folder; do
  if [ ! -e "$root$folder" ] && [ -d "$root$(dirname "$folder")" ]; then
    mkdir -m 0700 "$root$folder"
    chown "$owner" "$root$folder"
    say "made $folder for the service"
  elif [ ! -d "$root$folder" ]; then
    say "$folder is not there: make it, and give it to the service (chown posthorn: $folder)"
  elif [ "$(stat -c %u "$root$folder")" != "${owner%:*}" ]; then
    say "$folder does not belong to the service: chown posthorn: $folder"
  fi
done <"$scratch/folders"

[ "$changed" = yes ] || exit 0
say 'the units may write where the settings say'
if [ -z "$root" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  say 'restart the service for it: systemctl restart posthorn'
fi
