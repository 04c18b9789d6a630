#!/bin/sh
# Installs this checkout, or upgrades to it, as a systemd service. Safe to run again: what is up to date is left alone, and
# settings and data are never touched. Needs a built checkout (`npm ci && npm run build`) or what pack-offline.sh made, and no
# network.
#
#   systemd/install.sh [--root FOLDER] [--no-start]
#
#   --root FOLDER   installs into a system that is mounted there instead of into this one
#   --no-start      leaves the service as it is: nothing is enabled, started or restarted
#
# Units are enabled when they are new. One that was switched off (systemctl disable) stays off.
set -eu
umask 022

. "$(dirname "$0")/common.sh"

root=
start=yes
while [ $# -gt 0 ]; do
  case "$1" in
  --root)
    take_root "${2:-}"
    shift
    ;;
  --no-start) start=no ;;
  -h | --help)
    show_help "$0"
    exit 0
    ;;
  *) fail "unknown option $1 (see --help)" ;;
  esac
  shift
done

source=$(cd "$(dirname "$0")/.." && pwd)
program=/opt/posthorn
units=/etc/systemd/system
changed=no

# --- what is needed -------------------------------------------------------------------------------------------------
need_root systemd/install.sh
for tool in systemd-sysusers systemd-tmpfiles systemctl; do
  command -v "$tool" >/dev/null || fail "$tool is missing: this installs a systemd service (on Debian: apt-get install systemd)"
done
# Earlier ones do not load a folder of credentials, and start the units without the operator's secrets.
runs=$(systemctl --version | sed -nE '1s/^systemd ([0-9]+).*/\1/p')
[ -n "$root" ] || [ "${runs:-250}" -ge 250 ] || fail "systemd 250 or newer is needed; this is $runs"
node=$(command -v node) || fail 'Node.js is missing: 20.19 or newer is needed'
node=$(readlink -f "$node")
case "$node" in
/home/* | /root/*) fail "$node belongs to one user: install Node.js for the whole system, such as in /usr/bin" ;;
esac
"$node" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
  fail "Node.js 20.19 or newer is needed; $node is $("$node" --version)"
# Another system has its own; this one's does the work here.
there=$node
[ -z "$root" ] || [ ! -x "$root/usr/bin/node" ] || there=/usr/bin/node
check_built "$source"

# --- the program ----------------------------------------------------------------------------------------------------
# Made aside, compared, and put in place at once: a run that breaks off leaves the old one whole.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
stage=$scratch/program
. "$source/systemd/stage-program.sh"
stage_program "$source" "$stage" "$scratch"
chown -R 0:0 "$stage"
chmod -R u=rwX,go=rX "$stage"
# A program that does not even run must not replace one that does.
(cd / && "$node" "$stage/src/bin/posthorn.cjs" --version >/dev/null 2>"$scratch/fault") ||
  fail "the built program does not run, so nothing was changed: in $source run \`npm ci && npm run build\`. It says: $(grep -m 1 Error "$scratch/fault" || cat "$scratch/fault")"

if [ -e "$root$program.new" ] || [ -e "$root$program.old" ]; then rm -rf "$root$program.new" "$root$program.old"; fi
if ! diff -r -q "$stage" "$root$program" >/dev/null 2>&1; then
  changed=yes
  mkdir -p "$root/opt"
  cp -R -p "$stage" "$root$program.new"
  [ ! -d "$root$program" ] || mv "$root$program" "$root$program.old"
  mv "$root$program.new" "$root$program"
  rm -rf "$root$program.old"
fi

# --- everything around it -------------------------------------------------------------------------------------------
# put FILE PLACE MODE: writes standard input there, if it is not there already.
put() {
  cat >"$scratch/file"
  cmp -s "$scratch/file" "$root$1" && return
  changed=yes
  mkdir -p "$root$(dirname "$1")"
  cp "$scratch/file" "$root$1.new"
  chmod "$2" "$root$1.new"
  mv "$root$1.new" "$root$1"
}

put /usr/lib/sysusers.d/posthorn.conf 644 <"$source/systemd/posthorn.sysusers"
put /usr/lib/tmpfiles.d/posthorn.conf 644 <"$source/systemd/posthorn.tmpfiles"
systemd-sysusers ${root:+"--root=$root"} posthorn.conf
systemd-tmpfiles ${root:+"--root=$root"} --create posthorn.conf
owner=$(sed -n 's/^posthorn:[^:]*:\([0-9]*\):\([0-9]*\):.*/\1:\2/p' "$root/etc/passwd")
[ -n "$owner" ] || fail 'the user posthorn could not be made'

# The command for everybody's shell. Root becomes the server's user, so that no file of it ends up with another owner; but
# `tls install` has to read keys as root first, and `config` the credentials, and they become that user themselves.
put /usr/local/bin/posthorn 755 <<SCRIPT
#!/bin/sh
program='$there $program/src/bin/posthorn.cjs'
case "\$(id -u) \${1:-}" in
'0 config') export CREDENTIALS_DIRECTORY=/etc/posthorn/credentials ;;
'0 tls') ;;
'0 '*) exec setpriv --reuid=posthorn --regid=posthorn --init-groups -- \$program "\$@" ;;
esac
exec \$program "\$@"
SCRIPT

if [ ! -e "$root/etc/posthorn/posthorn.yaml" ]; then
  put /etc/posthorn/posthorn.yaml 640 <"$source/systemd/posthorn.yaml"
  chown "0:${owner#*:}" "$root/etc/posthorn/posthorn.yaml"
fi

wanted=posthorn.service
new=
# note_new UNIT: remembers it if it is not installed yet.
note_new() { [ -e "$root$units/$1" ] || new="$new $1"; }
note_new posthorn.service
put "$units/posthorn.service" 644 <<UNIT
$(sed "s|/usr/bin/node|$there|" "$source/systemd/posthorn.service")
UNIT
put "$units/posthorn.socket" 644 <"$source/systemd/posthorn.socket"
# Nothing to take backups with, no timer.
if (cd / && "$node" "$source/src/bin/posthorn.cjs" backup --help 2>/dev/null) | grep -q '^Usage: posthorn backup'; then
  put "$units/posthorn-backup.service" 644 <<UNIT
$(sed "s|/usr/bin/node|$there|" "$source/systemd/posthorn-backup.service")
UNIT
  note_new posthorn-backup.timer
  put "$units/posthorn-backup.timer" 644 <"$source/systemd/posthorn-backup.timer"
  wanted="$wanted posthorn-backup.timer"
fi

# Where the settings name other folders than the units allow. Mistakes in the settings are told by the start.
folders=$("$root$program/systemd/paths.sh" ${root:+--root "$root"}) || true
case "$folders" in *'the units may write'*) changed=yes ;; esac
[ -z "$folders" ] || printf '%s\n' "$folders" | grep -v 'restart the service' || true

# --- start ----------------------------------------------------------------------------------------------------------
enable_new() { [ -z "$new" ] || systemctl ${root:+"--root=$root"} --quiet enable $new; }
is_on() { systemctl ${root:+"--root=$root"} --quiet is-enabled "$1" 2>/dev/null; }
if [ -n "$root" ]; then
  [ "$start" = no ] || enable_new
  say "installed into $root$program"
elif [ "$start" = no ]; then
  say "installed into $program; start it with: systemctl enable --now $wanted"
elif [ ! -d /run/systemd/system ]; then
  enable_new
  say "installed into $program; systemd does not run here, so it starts with the next boot"
else
  systemctl daemon-reload
  enable_new
  verb=start
  [ "$changed" = no ] || verb=restart
  # One that is switched off and was started by hand gets the new program, and one that does not run is left alone.
  if ! is_on posthorn.service; then
    verb=
    [ "$changed" = no ] || verb=try-restart
  fi
  # The reason is a line of the program's own.
  [ -z "$verb" ] || systemctl "$verb" posthorn.service ||
    fail "the service does not start: $(journalctl -u posthorn -n 50 -o cat --no-pager 2>/dev/null | sed -n 's/^posthorn: //p' | tail -n 1) (more: journalctl -u posthorn -n 50)"
  for unit in $wanted; do
    case "$unit" in *.timer) ! is_on "$unit" || systemctl start "$unit" ;; esac
  done
  ! systemctl --quiet is-active posthorn.service || say "$(systemctl show --property=StatusText --value posthorn.service)"
fi
for unit in $wanted; do
  [ "$start" = no ] || is_on "$unit" || say "$unit is switched off and stays so; to switch it on: systemctl enable --now $unit"
done
[ "$changed" = yes ] || say 'nothing has changed'
