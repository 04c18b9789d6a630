#!/bin/sh
# Removes the service and the program. Settings (/etc/posthorn), data (/var/lib/posthorn), backups (/var/backups/posthorn)
# and the user stay, unless --purge says that they go too. Folders elsewhere that settings named always stay, and are named. Safe to run again.
#
#   systemd/uninstall.sh [--root FOLDER] [--purge]
set -eu

. "$(dirname "$0")/common.sh"

root=
purge=no
while [ $# -gt 0 ]; do
  case "$1" in
  --root)
    take_root "${2:-}"
    shift
    ;;
  --purge) purge=yes ;;
  -h | --help)
    show_help "$0"
    exit 0
    ;;
  *) fail "unknown option $1 (see --help)" ;;
  esac
  shift
done
need_root systemd/uninstall.sh

# Folders that paths.sh let the units write to. Others may keep files in them, so they are named and not removed.
folders=$(sed -n 's/^ReadWritePaths="-\(.*\)"$/\1/p' "$root/etc/systemd/system/posthorn.service.d/10-folders.conf" 2>/dev/null | sed 's/%%/%/g') || true

units='posthorn-backup.timer posthorn-backup.service posthorn.socket posthorn.service'
for unit in $units; do
  rm -f "$root/etc/systemd/system/$unit.d/10-folders.conf"
  rmdir "$root/etc/systemd/system/$unit.d" 2>/dev/null || true
  [ -e "$root/etc/systemd/system/$unit" ] || continue
  if [ -n "$root" ]; then
    systemctl --root="$root" --quiet disable "$unit" 2>/dev/null || true
  else
    [ ! -d /run/systemd/system ] || systemctl stop "$unit" || fail "$unit does not stop"
    systemctl --quiet disable "$unit" 2>/dev/null || true
  fi
  rm -f "$root/etc/systemd/system/$unit"
done
[ -n "$root" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload

rm -rf "$root/opt/posthorn" "$root/opt/posthorn.new" "$root/opt/posthorn.old"
rm -f "$root/usr/local/bin/posthorn" "$root/usr/lib/sysusers.d/posthorn.conf" "$root/usr/lib/tmpfiles.d/posthorn.conf"

if [ "$purge" = yes ]; then
  rm -rf "$root/etc/posthorn" "$root/var/lib/posthorn" "$root/var/backups/posthorn"
  for command in userdel groupdel; do
    "$command" ${root:+--root "$root"} posthorn 2>/dev/null || true
  done
  say 'removed, with /etc/posthorn, /var/lib/posthorn and /var/backups/posthorn'
else
  say 'removed; settings, data and backups are kept (--purge removes them)'
fi
printf '%s\n' "$folders" | while IFS= read -r folder; do
  [ -z "$folder" ] || [ ! -e "$root$folder" ] || say "$folder stays, as settings named it: it may have mail and keys"
done
